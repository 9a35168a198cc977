"""A world whose clock and workers move only when a test says so."""

import heapq
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any


class SteppedTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class SteppedWorld:
    """Implements handlers.context.World."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self.jobs: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[int, int, SteppedTimer]] = []
        self._order = count()

    def now_ms(self) -> int:
        return self._now_ms

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> SteppedTimer:
        timer = SteppedTimer(callback)
        heapq.heappush(self._timers, (self._now_ms + delay_ms, next(self._order), timer))
        return timer

    def in_worker(
        self,
        work: Callable[[], Any],
        done: Callable[[Any], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        def job() -> None:
            try:
                result = work()
            except Exception as error:
                failed(error)
            else:
                done(result)

        self.jobs.append(job)

    def work(self) -> int:
        """One job of the workers, if there is one."""
        if self.jobs:
            self.jobs.popleft()()
            return 1
        return 0

    def settle(self) -> None:
        """All jobs, also those that come of them."""
        while self.work():
            pass

    def advance(self, by_ms: int) -> None:
        """Let time pass; what is due runs, and the workers keep up."""
        end = self._now_ms + by_ms
        while self._timers and self._timers[0][0] <= end:
            self._now_ms, _, timer = heapq.heappop(self._timers)
            if timer.callback is not None:
                timer.callback()
            self.settle()
        self._now_ms = end
