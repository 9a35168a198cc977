"""Which segments may go: those before the log start, those too many, those too old, in that order.

The active segment goes only with all the others, and then a new one is begun first.
"""

from collections.abc import Sequence

from pykraft.core.log.config import LogConfig
from pykraft.core.log.segment import Segment


def count_deletable(
    segments: Sequence[Segment],
    config: LogConfig,
    *,
    log_start_offset: int,
    log_end_offset: int,
    high_watermark: int,
    now_ms: int,
) -> int:
    """How many of the oldest segments may go. Nothing above the high watermark ever does."""
    ends = [segment.base_offset for segment in segments[1:]] + [log_end_offset]
    allowed = 0
    while allowed < len(segments) and ends[allowed] <= high_watermark:
        allowed += 1
    if allowed == len(segments) and segments[-1].size == 0:
        allowed -= 1
    count = 0
    while count < min(allowed, len(segments) - 1) and ends[count] <= log_start_offset:
        count += 1
    if config.deletes:
        count = _past_size(segments, count, allowed, config.retention_bytes)
        count = _past_time(segments, count, allowed, config.retention_ms, now_ms)
    return count


def _past_size(segments: Sequence[Segment], count: int, allowed: int, limit: int) -> int:
    if limit < 0:
        return count
    excess = sum(segment.size for segment in segments[count:]) - limit
    while count < allowed and excess >= segments[count].size:
        excess -= segments[count].size
        count += 1
    return count


def _past_time(
    segments: Sequence[Segment], count: int, allowed: int, limit_ms: int, now_ms: int
) -> int:
    if limit_ms < 0:
        return count
    while count < allowed and now_ms - segments[count].age_from_ms() > limit_ms:
        count += 1
    return count
