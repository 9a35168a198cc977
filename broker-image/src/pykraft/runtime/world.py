"""Time, timers and worker threads: the one place that reads a clock."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

# One for fsync and deletion, one for recompression, one spare: more would only queue for the disk.
WORKERS = 3


class RealWorld:
    """Implements handlers.context.World on an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.workers = ThreadPoolExecutor(max_workers=WORKERS, thread_name_prefix="worker")

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
            error = future.exception()
            if error is not None:
                failed(error)
            else:
                done(future.result())

        future = self.workers.submit(work)
        future.add_done_callback(lambda f: self._on_loop(settle, f))

    def _on_loop(self, settle: Callable[["Future[T]"], None], future: "Future[T]") -> None:
        # The loop may be closed already when the node stops; the work itself is done.
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(settle, future)

    def stop(self) -> None:
        self.workers.shutdown(wait=True)
