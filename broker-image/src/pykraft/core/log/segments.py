"""The segments of a log in order, and finding offsets and times in them."""

from bisect import bisect_right
from typing import NamedTuple

from pykraft.core.log.config import LONG_MAX
from pykraft.core.log.segment import ActiveSegment, Segment
from pykraft.core.log.time_search import TimeSearch
from pykraft.core.storage import File
from pykraft.records.batch import LOG_OVERHEAD_BYTES

# Places where readers stopped, so that they go on without a search.
HINTS_MAX = 64


class FileSlice(NamedTuple):
    """A stretch of a log file. Holding `file` keeps it open, also when the segment is deleted."""

    file: File
    position: int
    size: int


class Segments:
    """Invariants: there is at least one; `all` is in order; `active` is the last of it.

    `tail_offset` is the first offset of the batch that was appended last, at `tail_position` of the
    active segment: most fetches ask for just that one.
    """

    __slots__ = ("_hints", "active", "all", "bases", "tail_offset", "tail_position")

    def __init__(self, sealed: list[Segment], active: ActiveSegment, end_offset: int) -> None:
        self.set(sealed, active, end_offset)

    def set(self, sealed: list[Segment], active: ActiveSegment, end_offset: int) -> None:
        self.all: list[Segment] = [*sealed, active]
        self.bases = [segment.base_offset for segment in self.all]
        self.active = active
        self._hints: dict[int, int] = {}
        self.tail_offset, self.tail_position = end_offset, active.size

    def roll(self, sealed: Segment, created: ActiveSegment) -> None:
        assert sealed.base_offset == self.active.base_offset
        self.set([*self.all[:-1], sealed], created, created.base_offset)

    def drop(self, count: int) -> list[Segment]:
        """Take the oldest out."""
        assert count < len(self.all)
        gone = self.all[:count]
        del self.all[:count]
        del self.bases[:count]
        return gone

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.all)

    def read(
        self, offset: int, max_bytes: int, end_offset: int, log_end_offset: int, at_least_one: bool
    ) -> FileSlice | None:
        active = self.active
        if offset == self.tail_offset:
            position = self.tail_position
        else:
            known = self._hints.get(offset)
            if known is None:
                return self._search_and_read(
                    offset, max_bytes, min(end_offset, log_end_offset), log_end_offset, at_least_one
                )
            position = known
        if end_offset >= log_end_offset:
            end = active.size
            if end - position <= max_bytes:
                self._remember(log_end_offset, end)
                return FileSlice(active.file, position, end - position)
        else:
            end = self._position_of(end_offset)
        return self._slice(active, position, end, max_bytes, at_least_one)

    def _search_and_read(
        self, offset: int, max_bytes: int, end_offset: int, log_end_offset: int, at_least_one: bool
    ) -> FileSlice | None:
        at = bisect_right(self.bases, offset) - 1
        while at < len(self.all) and self.bases[at] < end_offset:
            segment = self.all[at]
            found = segment.find(offset)
            if found is not None:
                next_base = self.bases[at + 1] if at + 1 < len(self.bases) else LONG_MAX
                end = segment.size
                if end_offset < min(next_base, log_end_offset):
                    cut = segment.find(end_offset)
                    end = cut[0] if cut else end
                return self._slice(segment, found[0], end, max_bytes, at_least_one)
            # Compaction may have taken the rest of a segment.
            at += 1
        return None

    def _position_of(self, end_offset: int) -> int:
        """Where in the active segment the batch with `end_offset` begins."""
        if end_offset == self.tail_offset:
            return self.tail_position
        position = self._hints.get(end_offset)
        if position is None:
            if end_offset <= self.active.base_offset:
                return 0
            found = self.active.find(end_offset)
            position = found[0] if found else self.active.size
            if found and found[1].base_offset == end_offset:
                self._remember(end_offset, position)
        return position

    def _slice(
        self, segment: Segment, position: int, end: int, max_bytes: int, at_least_one: bool
    ) -> FileSlice | None:
        file = segment.log_file()
        size = end - position
        if size > max_bytes:
            first = int.from_bytes(file.read_at(position + 8, 4), "big") + LOG_OVERHEAD_BYTES
            if first > max_bytes and not at_least_one:
                return None
            size = min(size, max(first, max_bytes))
        return FileSlice(file, position, size) if size > 0 else None

    def _remember(self, offset: int, position: int) -> None:
        if len(self._hints) >= HINTS_MAX:
            self._hints.clear()
        self._hints[offset] = position

    def search_time(
        self, timestamp_ms: int, log_start_offset: int, from_offset: int
    ) -> TimeSearch | None:
        """The first segment from `from_offset` on that may have the time."""
        from_offset = max(from_offset, log_start_offset)
        ends = [*self.bases[1:], LONG_MAX]
        for segment, end in zip(self.all, ends, strict=True):
            if end > from_offset and segment.latest()[0] >= timestamp_ms:
                return self._search(segment, end, timestamp_ms, log_start_offset)
        return None

    def search_latest(self) -> TimeSearch | None:
        segment = max(self.all, key=lambda candidate: candidate.latest()[0])
        timestamp = segment.latest()[0]
        return self._search(segment, LONG_MAX, timestamp, 0) if timestamp >= 0 else None

    def _search(
        self, segment: Segment, end_offset: int, timestamp_ms: int, start_offset: int
    ) -> TimeSearch:
        return TimeSearch(
            segment.log_file(),
            segment.locate_time(timestamp_ms, start_offset),
            segment.size,
            timestamp_ms=timestamp_ms,
            start_offset=start_offset,
            next_offset=end_offset,
        )
