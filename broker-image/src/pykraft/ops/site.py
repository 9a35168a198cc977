"""The pages /livez, /readyz and /metrics, served in a thread of their own.

Two rules keep them off the data path. What the node knows is asked on the node's loop, in turns of
at most `PARTITIONS_PER_TURN` partitions, so that the core needs no locks and no turn is long. What
is made of it is made here, in pieces with a pause after each: a pause hands the interpreter over at
once, where a busy thread would sit on it for a switch interval (5 ms) at a time.

Probes and scrapes are few and small, so every bound is tight: a connection serves one request and
lives for `CONNECTION_SECONDS_MAX` at most, whatever its client does or fails to do.
"""

import asyncio
import concurrent.futures
import socket
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from aiohttp import web

from pykraft.counters import Counters
from pykraft.ops.health import reasons_not_ready
from pykraft.ops.view import NodeView, PartitionStats

if TYPE_CHECKING:
    from pykraft.ops.metrics import NodeCollector

T = TypeVar("T")

CONNECTIONS_MAX = 32
CONNECTION_SECONDS_MAX = 30.0
# For pages that are being made when the node stops. Not 0, which aiohttp takes for no limit.
SHUTDOWN_SECONDS_MAX = 0.05
HEADER_BYTES_MAX = 4096
HEADERS_MAX = 32
# A loop that is silent for this long is no longer alive.
ANSWER_SECONDS_MAX = 2.0
# About a tenth of a millisecond on the node's loop.
PARTITIONS_PER_TURN = 50
# After each piece of a page. Longer than a wake-up, so that whoever waits really gets its turn.
PAUSE_SECONDS = 0.001

INDEX = """pykraft
/livez    200 while the node's event loop runs
/readyz   200 when the node can serve clients, else the reasons, one per line
/metrics  Prometheus metrics
"""


class LoopSilentError(Exception):
    """The node's event loop did not answer."""


class NodeLoop:
    """The way from this thread to the node's event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    async def ask(self, question: Callable[[], T]) -> T:
        """The answer, given on the node's loop. Raises LoopSilentError."""
        answer: concurrent.futures.Future[T] = concurrent.futures.Future()

        def on_node_loop() -> None:
            if not answer.set_running_or_notify_cancel():
                return  # Whoever asked has given up.
            try:
                answer.set_result(question())
            except Exception as error:  # It belongs to the one who asked, not to the node's loop.
                answer.set_exception(error)

        try:
            self._loop.call_soon_threadsafe(on_node_loop)
        except RuntimeError as error:
            raise LoopSilentError("the event loop is closed") from error
        try:
            return await asyncio.wait_for(asyncio.wrap_future(answer), ANSWER_SECONDS_MAX)
        except TimeoutError:
            raise LoopSilentError(
                f"the event loop did not answer within {ANSWER_SECONDS_MAX:g} s"
            ) from None


class Connections(web.Server):
    """aiohttp's server, with a limit to how many connections there are and how long they last."""

    def __init__(self, answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> None:
        super().__init__(
            answer,
            access_log=None,
            lingering_time=0,
            max_line_size=HEADER_BYTES_MAX,
            max_field_size=HEADER_BYTES_MAX,
            max_headers=HEADERS_MAX,
        )
        self._deadlines: dict[web.RequestHandler, asyncio.TimerHandle] = {}

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        # aiohttp itself waits for ever for a request's first line, and for a slow reader. One
        # connection too many has no time at all: several may be accepted before the first of them
        # gets here, so this is the place that can count them.
        seconds = CONNECTION_SECONDS_MAX if len(self._deadlines) < CONNECTIONS_MAX else 0
        loop = asyncio.get_running_loop()
        self._deadlines[handler] = loop.call_later(seconds, transport.abort)
        super().connection_made(handler, transport)

    def connection_lost(
        self, handler: web.RequestHandler, exc: BaseException | None = None
    ) -> None:
        self._deadlines.pop(handler).cancel()
        super().connection_lost(handler, exc)


class Site:
    def __init__(
        self, view: NodeView, counters: Counters, node_loop: asyncio.AbstractEventLoop
    ) -> None:
        self._view = view
        self._counters = counters
        self._node = NodeLoop(node_loop)
        self._collector: NodeCollector | None = None
        # Two scrapes at once would only slow each other down; and they share the collector.
        self._scrape = asyncio.Lock()
        # Not the policy's loop: that may be uvloop's, and this one is to be small, not fast.
        self._loop = asyncio.SelectorEventLoop()
        self._stopped = asyncio.Event()

    def serve(self, listener: socket.socket) -> None:
        """Returns after `stop`."""
        try:
            self._loop.run_until_complete(self._serve(listener))
        finally:
            self._loop.close()

    def stop(self) -> None:
        """Called from another thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stopped.set)

    async def _serve(self, listener: socket.socket) -> None:
        connections = Connections(self._answer)
        server = await self._loop.create_server(connections, sock=listener)
        await self._stopped.wait()
        server.close()
        await connections.shutdown(SHUTDOWN_SECONDS_MAX)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method not in ("GET", "HEAD"):
            return _text(405, "only GET and HEAD\n")
        match request.path:
            case "/livez":
                return await self._livez()
            case "/readyz":
                return await self._readyz()
            case "/metrics":
                return await self._metrics(request)
            case "/":
                return _text(200, INDEX)
            case _:
                return _text(404, f"no such page\n{INDEX}")

    async def _livez(self) -> web.Response:
        try:
            await self._node.ask(lambda: None)
        except LoopSilentError as silent:
            return _text(503, f"{silent}\n")
        return _text(200, "ok\n")

    async def _readyz(self) -> web.Response:
        try:
            reasons = await self._node.ask(lambda: reasons_not_ready(self._view))
        except LoopSilentError as silent:
            reasons = [str(silent)]
        if reasons:
            return _text(503, "".join(f"{reason}\n" for reason in reasons))
        return _text(200, "ok\n")

    async def _metrics(self, request: web.BaseRequest) -> web.StreamResponse:
        from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

        from pykraft.ops.metrics import render

        async with self._scrape:
            try:
                collector = await self._snapshot()
            except LoopSilentError as silent:
                return _text(503, f"{silent}\n")
            page = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})
            page.force_close()
            await page.prepare(request)
            for piece in render(collector.pieces()):
                await page.write(piece)
                await asyncio.sleep(PAUSE_SECONDS)
            return page

    async def _snapshot(self) -> "NodeCollector":
        """The collector, with what the node says now."""
        from pykraft.ops.metrics import NodeCollector, Snapshot

        if self._collector is None:
            self._collector = NodeCollector(self._counters)
        view = self._view
        snapshot = await self._node.ask(lambda: Snapshot(view.status(), view.log_dirs()))
        rest = await self._node.ask(view.partitions)

        def turn() -> list[PartitionStats]:
            return list(islice(rest, PARTITIONS_PER_TURN))

        while some := await self._node.ask(turn):
            snapshot.partitions += some
            await asyncio.sleep(PAUSE_SECONDS)
        self._collector.snapshot = snapshot
        return self._collector


def _text(status: int, text: str) -> web.Response:
    response = web.Response(status=status, text=text)
    response.force_close()
    return response
