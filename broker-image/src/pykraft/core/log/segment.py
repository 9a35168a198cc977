"""A segment: one `.log` file with its two indexes. The last segment of a log is the active one.

A sealed segment holds no file open and has read nothing until somebody asks. The active segment
keeps its file, and what the append path needs to know.
"""

from collections.abc import Callable, Iterator, Sequence

from typing_extensions import Buffer

from pykraft.core.log.files import OpenFiles
from pykraft.core.log.index import IndexDamagedError, OffsetIndex, TimeIndex
from pykraft.core.log.index_builder import IndexBuilder
from pykraft.core.log.scanning import (
    REPLAY_BYTES,
    Located,
    refuse_old_message,
    walk,
    walk_checked,
)
from pykraft.core.storage import File
from pykraft.records.batch import BatchHeader

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
DELETED = ".deleted"
NEVER = 2**63
RELATIVE_OFFSET_MAX = 2**31 - 1
# No segment begins later, so that no offset within one, nor the one after it, exceeds an i64. The
# append path need not look.
BASE_OFFSET_MAX = 2**63 - 2 - RELATIVE_OFFSET_MAX


def file_prefix(folder: str, offset: int) -> str:
    return f"{folder}/{offset:020}"


class Segment:
    """Sealed: batches from `base_offset` on, `size` bytes of them."""

    __slots__ = ("_indexes", "_latest", "base_offset", "files", "interval", "prefix", "size")

    def __init__(
        self, files: OpenFiles, prefix: str, base_offset: int, size: int, interval: int
    ) -> None:
        self.files = files
        self.prefix = prefix
        self.base_offset = base_offset
        self.size = size
        # Bytes of log from one index entry to the next.
        self.interval = interval
        self._indexes: tuple[OffsetIndex, TimeIndex] | None = None
        self._latest: tuple[int, int] | None = None

    def log_file(self) -> File:
        return self.files.get(self.prefix + LOG)

    def indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Loaded when first needed, and built from the log when they are damaged."""
        if self._indexes is None:
            offsets = OffsetIndex(self.files, self.prefix + INDEX)
            times = TimeIndex(self.files, self.prefix + TIME_INDEX)
            self._indexes = offsets, times
            try:
                offsets.load()
                times.load()
                if offsets.last[1] > self.size or not (times.entries or self._is_timeless()):
                    raise IndexDamagedError(offsets.path)
            except IndexDamagedError:
                self._rebuild()
        return self._indexes

    def _is_timeless(self) -> bool:
        """Without times there are no entries of them; sealing leaves at least one otherwise."""
        first = next(walk(self.log_file(), 0, self.size), None)
        return first is None or first[1].max_timestamp < 0

    def latest(self) -> tuple[int, int]:
        """The largest timestamp and the last offset of its batch; -1 without any."""
        if self._latest is None:
            times = self.indexes()[1]
            if self._latest is None:
                self._latest = times.last[0], self.base_offset + times.last[1]
        return self._latest

    def age_from_ms(self) -> int:
        """What retention counts from: the latest record, or the last write where none has a time.

        As in Kafka.
        """
        timestamp = self.latest()[0]
        return timestamp if timestamp >= 0 else self.files.disk.modified_ms(self.prefix + LOG)

    def find(self, offset: int) -> Located | None:
        """The first batch that ends at or after `offset`, with its position."""
        for position, header in self._walk_from(offset):
            if header.last_offset >= offset:
                return position, header
        return None

    def locate_time(self, timestamp: int, start_offset: int) -> int:
        """The position from which on the first record at or after the time may be."""
        try:
            hint = self.indexes()[1].find(timestamp)
        except IndexDamagedError:
            self._rebuild()
            hint = self.indexes()[1].find(timestamp)
        offset = max(start_offset, self.base_offset + (hint[1] if hint else 0))
        first = next(self._walk_from(offset), None)
        return first[0] if first is not None else self.size

    def walk(self, position: int = 0) -> Iterator[Located]:
        return walk(self.log_file(), position, self.size, REPLAY_BYTES)

    def _walk_from(self, offset: int) -> Iterator[Located]:
        """From where the index says, if the batch there is the one that it speaks of."""
        relative = offset - self.base_offset
        try:
            entry = self.indexes()[0].find(relative)
        except IndexDamagedError:
            self._rebuild()
            entry = self.indexes()[0].find(relative)
        steps = walk(self.log_file(), entry[1] if entry else 0, self.size)
        if entry is not None:
            hit = next(steps, None)
            if hit is None or hit[1].last_offset != self.base_offset + entry[0]:
                self._rebuild()
                entry = self.indexes()[0].find(relative)
                steps = walk(self.log_file(), entry[1] if entry else 0, self.size)
            else:
                yield hit
        yield from steps

    def _rebuild(self) -> None:
        """Make both indexes anew from the headers. Only a damaged file brings us here."""
        assert self._indexes is not None
        offsets, times = self._indexes
        offsets.clear()
        times.clear()
        builder = IndexBuilder(self.base_offset, self.interval, offsets, times)
        for position, header in self.walk():
            builder.note(position, header.last_offset, header.max_timestamp)
        self._latest = builder.max_timestamp, builder.max_timestamp_offset
        builder.finish()
        # Half of an index would be believed after the next crash.
        builder.sync()

    def file_names(self) -> list[str]:
        return [self.prefix + suffix for suffix in (LOG, INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT)]

    def mark_deleted(self) -> list[str]:
        """Rename the files; whoever reads from them goes on. The new names, to be deleted later."""
        disk = self.files.disk
        renamed = []
        for path in self.file_names():
            self.files.forget(path)
            if disk.exists(path):
                disk.rename(path, path + DELETED)
                renamed.append(path + DELETED)
        return renamed


class ActiveSegment(Segment):
    """The one that is appended to. Invariant: `size` == `file.size`, entries lie below `size`."""

    __slots__ = (
        "builder",
        "created_ms",
        "entries_max",
        "file",
        "full",
        "jitter_ms",
        "roll_ms",
        "roll_now_ms",
        "roll_timestamp",
    )

    def __init__(
        self,
        files: OpenFiles,
        prefix: str,
        base_offset: int,
        file: File,
        interval: int,
        *,
        now_ms: int,
        segment_ms: int,
        jitter_ms: int,
        index_bytes: int,
    ) -> None:
        super().__init__(files, prefix, base_offset, file.size, interval)
        self.file = file
        offsets = OffsetIndex(files, prefix + INDEX)
        times = TimeIndex(files, prefix + TIME_INDEX)
        self._indexes = offsets, times
        self.builder = IndexBuilder(base_offset, interval, offsets, times)
        self.created_ms = now_ms
        # Chosen once, so that segments of many logs that began together do not end together.
        self.jitter_ms = jitter_ms
        self.roll_ms = segment_ms - jitter_ms
        # A batch with a later timestamp, or one that comes later than this, begins a new segment.
        self.roll_timestamp = NEVER
        self.roll_now_ms = NEVER
        self.entries_max = (
            index_bytes // OffsetIndex.ENTRY.size,
            index_bytes // TimeIndex.ENTRY.size,
        )
        self.full = False

    def log_file(self) -> File:
        return self.file

    def latest(self) -> tuple[int, int]:
        return self.builder.max_timestamp, self.builder.max_timestamp_offset

    def append(
        self, parts: Sequence[Buffer], size: int, last_offset: int, max_timestamp: int
    ) -> None:
        """Write one batch. On StorageError nothing has changed."""
        position = self.size
        builder = self.builder
        indexed = position - builder.indexed_position > self.interval
        if indexed and builder.offsets.wants_writing:
            # Before the batch is written: once it is, nothing may fail.
            builder.write()
        self.file.append(parts)
        self.size = position + size
        if max_timestamp > builder.max_timestamp:
            builder.max_timestamp = max_timestamp
            builder.max_timestamp_offset = last_offset
        if indexed:
            builder.add_entry(position, last_offset)
            self._note_full()
        elif position == 0:
            self._begin(max_timestamp)

    def _begin(self, first_timestamp: int) -> None:
        """The first batch decides when the segment is too old (its own time, if it has one)."""
        if first_timestamp >= 0:
            self.roll_timestamp = first_timestamp + self.roll_ms
        else:
            self.roll_now_ms = self.created_ms + self.roll_ms

    def set_segment_ms(self, segment_ms: int) -> None:
        """The topic was given another segment.ms: the age that is allowed changes at once."""
        change = segment_ms - self.jitter_ms - self.roll_ms
        self.roll_ms += change
        if self.roll_timestamp != NEVER:
            self.roll_timestamp += change
        if self.roll_now_ms != NEVER:
            self.roll_now_ms += change

    def _note_full(self) -> None:
        offsets, times = self.builder.offsets, self.builder.times
        # As Kafka: one place in the time index is kept for the entry that sealing adds.
        self.full = (
            offsets.entries >= self.entries_max[0] or times.entries >= self.entries_max[1] - 1
        )

    def resume(self) -> int | None:
        """After a clean stop: the end offset. None when index or log are not as a clean stop
        leaves them, and the segment must be recovered."""
        offsets, times = self.builder.offsets, self.builder.times
        end_offset = self.base_offset
        try:
            offsets.load()
            times.load()
        except IndexDamagedError:
            return None
        builder = self.builder
        relative, position = offsets.last
        builder.indexed_position = position
        if times.entries:
            builder.max_timestamp = times.last[0]
            builder.max_timestamp_offset = self.base_offset + times.last[1]
        end_position = position
        for at, header in walk(self.file, position, self.size):
            if (
                at == position
                and offsets.entries
                and header.last_offset != (self.base_offset + relative)
            ):
                return None
            if header.max_timestamp > builder.max_timestamp:
                builder.max_timestamp = header.max_timestamp
                builder.max_timestamp_offset = header.last_offset
            end_offset = header.last_offset + 1
            end_position = at + header.size
        if end_position != self.size or builder.max_timestamp_offset >= max(end_offset, 1):
            return None
        self._resume_rolling()
        return end_offset

    def _resume_rolling(self) -> None:
        first = next(walk(self.file, 0, self.size), None)
        if first is not None:
            self._begin(first[1].max_timestamp)
        self._note_full()

    def recover(self, observe: Callable[[BatchHeader], None], *, was_clean: bool = False) -> int:
        """After a crash: check every byte, cut at the first that is wrong, build the indexes anew.

        Returns the end offset. `was_clean`: there was no crash, and it is not known what happened.
        """
        self._clear_indexes()
        builder = self.builder
        end_offset, end_position = self.base_offset, 0
        for position, header in walk_checked(self.file, self.base_offset):
            if header.last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
                break
            builder.note(position, header.last_offset, header.max_timestamp)
            observe(header)
            end_offset = header.last_offset + 1
            end_position = position + header.size
        if end_position < self.file.size:
            refuse_old_message(self.file, end_position, by_shape=was_clean)
            self.file.truncate(end_position)
            # What was cut must not come back behind a recovery point that has passed it.
            self.file.sync()
        self.size = end_position
        self._resume_rolling()
        return end_offset

    def truncate(self, position: int, end_offset: int) -> None:
        """Keep what lies before `position`; the batch there has `end_offset` or a later one."""
        self.file.truncate(position)
        self.size = position
        self._clear_indexes()
        for at, header in self.walk():
            self.builder.note(at, header.last_offset, header.max_timestamp)
            assert header.last_offset < end_offset, (header, end_offset)
        self._resume_rolling()

    def _clear_indexes(self) -> None:
        offsets, times = self.builder.offsets, self.builder.times
        offsets.clear()
        times.clear()
        self.builder = IndexBuilder(self.base_offset, self.interval, offsets, times)
        self.roll_timestamp = self.roll_now_ms = NEVER

    def finish(self, *, sync: bool) -> None:
        """Complete the index files, before sealing and at a clean stop."""
        self.builder.finish()
        if sync:
            self.builder.sync()

    def seal(self) -> Segment:
        """The same segment, no longer appended to; its file is open only while it is read."""
        sealed = Segment(self.files, self.prefix, self.base_offset, self.size, self.interval)
        sealed._latest = self.latest()
        return sealed
