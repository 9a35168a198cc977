"""Time, timers and worker threads: the one place that reads a clock."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class RealWorld:
    """Implements handlers.context.World on an event loop.

    A node has several, so that what is urgent never queues behind what is slow: the metadata log
    has a thread of its own, deleting files has one, and everything else shares a few.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str, threads: int) -> None:
        self.loop = loop
        self.workers = ThreadPoolExecutor(max_workers=threads, thread_name_prefix=name)
        # Jobs whose outcome has not been told on the loop yet.
        self.outstanding = 0
        self._when_idle: Callable[[], None] | None = None

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self.loop.call_later(delay_ms / 1000, callback)

    def in_worker(
        self,
        work: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        def settle(future: "Future[T]") -> None:
            self.outstanding -= 1
            try:
                error = future.exception()
                if error is not None:
                    failed(error)
                else:
                    done(future.result())
            finally:
                self._tell_if_idle()

        self.outstanding += 1
        future = self.workers.submit(work)
        future.add_done_callback(lambda f: self._on_loop(settle, f))

    def _on_loop(self, settle: Callable[["Future[T]"], None], future: "Future[T]") -> None:
        # The loop may be closed already when the node stops; the work itself is done.
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(settle, future)

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call back once every job is done and told."""
        self._when_idle = callback
        self._tell_if_idle()

    def _tell_if_idle(self) -> None:
        if self._when_idle is not None and self.outstanding == 0:
            callback, self._when_idle = self._when_idle, None
            callback()

    def stop(self) -> None:
        """Start no more jobs; those that run are not waited for."""
        self.workers.shutdown(wait=False, cancel_futures=True)
