"""The HTTP port over real sockets: what clients get, and what they cannot take."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from played_node import HEALTHY, PlayedNode, partition

from pykraft.counters import Counters
from pykraft.ops import site
from pykraft.ops.http import HttpEndpoint
from pykraft.ops.view import LogDirStats


class Port:
    """A running endpoint, as its clients see it."""

    def __init__(self, number: int) -> None:
        self.number = number

    async def get(self, path: str, method: str = "GET") -> tuple[int, str]:
        address = f"http://127.0.0.1:{self.number}{path}"
        async with aiohttp.ClientSession() as session, session.request(method, address) as answer:
            return answer.status, await answer.text()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.number)


@asynccontextmanager
async def endpoint(node: PlayedNode, counters: Counters | None = None) -> AsyncIterator[Port]:
    running = HttpEndpoint("127.0.0.1", 0, node, counters or Counters(), asyncio.get_running_loop())
    try:
        yield Port(running.start())
    finally:
        running.stop()


def test_a_healthy_node_is_alive_ready_and_says_what_else_there_is() -> None:
    async def story() -> None:
        async with endpoint(PlayedNode()) as port:
            assert await port.get("/livez") == (200, "ok\n")
            assert await port.get("/readyz") == (200, "ok\n")
            status, index = await port.get("/")
            assert status == 200
            assert all(page in index for page in ("/livez", "/readyz", "/metrics"))

    asyncio.run(story())


def test_an_unready_node_says_why_one_reason_per_line() -> None:
    async def story() -> None:
        node = PlayedNode(
            log_dirs=[LogDirStats("/a", False)], status=HEALTHY._replace(shutting_down=True)
        )
        async with endpoint(node) as port:
            answer = await port.get("/readyz")
            assert answer == (503, "shutting down\nlog directory offline: /a\n")
            assert await port.get("/livez") == (200, "ok\n")

    asyncio.run(story())


def test_metrics_show_counters_and_partitions_asked_for_in_short_turns() -> None:
    async def story() -> None:
        counters = Counters()
        counters.topic("orders").messages_in += 7
        count = 2 * site.PARTITIONS_PER_TURN + 1
        node = PlayedNode([partition(number=number) for number in range(count)])
        async with endpoint(node, counters) as port:
            status, page = await port.get("/metrics")
        assert status == 200
        assert 'kafka_server_brokertopicmetrics_messagesin_total{topic="orders"} 7.0\n' in page
        assert page.count("\nkafka_log_log_size{") == count

    asyncio.run(story())


def test_partitions_are_only_ever_touched_on_the_nodes_own_thread() -> None:
    touched_by = set()

    class Watched(PlayedNode):
        def partitions(self):  # type: ignore[no-untyped-def]
            for stats in super().partitions():
                touched_by.add(threading.get_ident())
                yield stats

    async def story() -> None:
        async with endpoint(Watched([partition(number=n) for n in range(120)])) as port:
            await port.get("/metrics")

    asyncio.run(story())
    assert touched_by == {threading.get_ident()}


def test_two_scrapes_at_once_both_get_a_whole_page() -> None:
    async def story() -> None:
        node = PlayedNode([partition(number=number) for number in range(60)])
        async with endpoint(node) as port:
            pages = await asyncio.gather(port.get("/metrics"), port.get("/metrics"))
        assert [page.count("\nkafka_log_log_size{") for _, page in pages] == [60, 60]

    asyncio.run(story())


def test_a_stuck_event_loop_is_reported_as_not_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "ANSWER_SECONDS_MAX", 0.05)
    stuck = asyncio.new_event_loop()  # It is never run, so it never answers.

    async def story() -> None:
        pages = site.Site(PlayedNode(), Counters(), stuck)
        answers = [await pages._livez(), await pages._readyz()]
        for answer in answers:
            assert (answer.status, answer.text) == (
                503,
                "the event loop did not answer within 0.05 s\n",
            )
        pages._loop.close()

    asyncio.run(story())
    stuck.close()


def test_a_closed_event_loop_is_reported_at_once() -> None:
    closed = asyncio.new_event_loop()
    closed.close()

    async def story() -> None:
        pages = site.Site(PlayedNode(), Counters(), closed)
        answer = await pages._livez()
        assert (answer.status, answer.text) == (503, "the event loop is closed\n")
        pages._loop.close()

    asyncio.run(story())


def test_a_fault_of_the_node_fails_the_page_and_not_the_node() -> None:
    class Broken(PlayedNode):
        def log_dirs(self):  # type: ignore[no-untyped-def]
            raise ValueError("broken")

    async def story() -> None:
        async with endpoint(Broken()) as port:
            assert (await port.get("/readyz"))[0] == 500
            assert (await port.get("/livez"))[0] == 200

    asyncio.run(story())


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [("/metricz", "GET", 404), ("/livez", "POST", 405), ("/livez", "DELETE", 405)],
)
def test_what_is_not_there_is_refused(path: str, method: str, status: int) -> None:
    async def story() -> None:
        async with endpoint(PlayedNode()) as port:
            assert (await port.get(path, method))[0] == status

    asyncio.run(story())


def test_a_request_with_a_huge_header_is_refused() -> None:
    async def story() -> None:
        async with endpoint(PlayedNode()) as port:
            reader, writer = await port.connect()
            writer.write(b"GET /livez HTTP/1.1\r\nX: " + b"x" * 5000 + b"\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.0 400")
            writer.close()

    asyncio.run(story())


def test_a_client_that_sends_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "CONNECTION_SECONDS_MAX", 0.05)

    async def story() -> None:
        async with endpoint(PlayedNode()) as port:
            reader, writer = await port.connect()
            assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()

    asyncio.run(story())


def test_one_connection_too_many_is_closed_and_the_others_live_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(site, "CONNECTIONS_MAX", 2)

    async def story() -> None:
        async with endpoint(PlayedNode()) as port:
            held = [await port.connect() for _ in range(2)]
            reader, writer = await port.connect()
            assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()
            first_reader, first_writer = held[0]
            first_writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200 OK" in await asyncio.wait_for(first_reader.read(), 10)
            for _, each in held:
                each.close()

    asyncio.run(story())


def test_nothing_is_loaded_and_no_thread_runs_before_somebody_connects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "pykraft.ops.site")

    async def story() -> None:
        before = threading.active_count()
        async with endpoint(PlayedNode()):
            await asyncio.sleep(0)
            assert threading.active_count() == before
            assert "pykraft.ops.site" not in sys.modules

    asyncio.run(story())


def test_loading_leaves_the_switch_interval_as_it_was() -> None:
    usual = sys.getswitchinterval()

    async def story() -> None:
        async with endpoint(PlayedNode()) as port:
            await port.get("/livez")

    asyncio.run(story())
    assert sys.getswitchinterval() == usual


def test_after_stop_the_port_is_free_and_the_thread_gone() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        first = HttpEndpoint("127.0.0.1", 0, PlayedNode(), Counters(), loop)
        number = first.start()
        await Port(number).get("/livez")
        first.stop()
        first.stop()
        assert "pykraft-http" not in [thread.name for thread in threading.enumerate()]
        second = HttpEndpoint("127.0.0.1", number, PlayedNode(), Counters(), loop)
        assert second.start() == number
        second.stop()

    asyncio.run(story())


def test_a_port_in_use_is_an_error_at_start() -> None:
    async def story() -> None:
        async with endpoint(PlayedNode()) as port:
            loop = asyncio.get_running_loop()
            second = HttpEndpoint("127.0.0.1", port.number, PlayedNode(), Counters(), loop)
            with pytest.raises(OSError, match="in use"):
                second.start()

    asyncio.run(story())


def test_ipv6_addresses_work_too() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        running = HttpEndpoint("::1", 0, PlayedNode(), Counters(), loop)
        number = running.start()
        reader, writer = await asyncio.open_connection("::1", number)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200 OK" in await reader.read()
        writer.close()
        running.stop()

    asyncio.run(story())
