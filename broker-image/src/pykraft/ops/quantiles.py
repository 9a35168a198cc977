"""How long requests took lately, from buckets that only ever grow.

Kafka's own quantiles weigh the last five minutes. Here the buckets as they were some minutes ago
are subtracted from the buckets of now; that costs the data path nothing. A bucket spans a factor of
two, and inside it times are taken as evenly spread, so that a quantile is right to within that.
"""

from collections import deque
from collections.abc import Sequence

WINDOW_NS = 300 * 10**9
# Old buckets are kept one per step: at most WINDOW / STEP + 1 copies per API.
STEP_NS = 60 * 10**9


class RecentTimes:
    """The buckets of one API, over about the last five minutes."""

    def __init__(self) -> None:
        # (when, the buckets then), oldest first. The oldest is the base that is subtracted.
        self._past: deque[tuple[int, list[int]]] = deque()

    def recent(self, buckets: Sequence[int], now_ns: int) -> list[int]:
        past = self._past
        if not past or now_ns - past[-1][0] >= STEP_NS:
            past.append((now_ns, list(buckets)))
        # The base should be at least a window old, so the one before it may go.
        while len(past) > 1 and now_ns - past[1][0] >= WINDOW_NS:
            past.popleft()
        when, base = past[0]
        if now_ns - when < WINDOW_NS:
            return list(buckets)  # Nobody looked before: all since the start is the best we know.
        return [now - then for now, then in zip(buckets, base, strict=True)]


def quantile_ns(buckets: Sequence[int], quantile: float) -> float:
    """Bucket n counts times from 2**(n-1) up to 2**n nanoseconds. 0 when nothing was counted."""
    wanted = quantile * sum(buckets)
    if wanted <= 0:
        return 0.0
    seen = 0
    for number, count in enumerate(buckets):
        if count and seen + count >= wanted:
            low = 2.0 ** (number - 1) if number else 0.0
            return low + (2.0**number - low) * (wanted - seen) / count
        seen += count
    return 2.0 ** len(buckets)
