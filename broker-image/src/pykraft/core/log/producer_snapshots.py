"""What a log knows of its producers, kept in `.snapshot` files and read again from the batches."""

from bisect import bisect_right
from collections.abc import Callable

from typing_extensions import Buffer

from pykraft.core.log.producer_state import ProducerState
from pykraft.core.log.segment import SNAPSHOT, Segment, file_prefix
from pykraft.core.storage import AbsentError, Disk
from pykraft.records.batch import BatchHeader
from pykraft.records.compression import CorruptRecordsError
from pykraft.records.records import iterate


class SnapshotFiles:
    """The `.snapshot` files of one log. Invariant: `offsets` grows."""

    __slots__ = ("_disk", "_folder", "offsets")

    def __init__(self, disk: Disk, folder: str, offsets: list[int]) -> None:
        self._disk = disk
        self._folder = folder
        self.offsets = offsets

    @property
    def latest(self) -> int:
        return self.offsets[-1] if self.offsets else -1

    def path(self, offset: int) -> str:
        return file_prefix(self._folder, offset) + SNAPSHOT

    def write(self, producers: ProducerState, offset: int) -> str:
        """Not synced here: a flush does that. A damaged one is recognised and passed over."""
        self._disk.write_atomically(self.path(offset), producers.encode_snapshot(), sync=False)
        if offset not in self.offsets:
            self.offsets = sorted([*self.offsets, offset])
        return self.path(offset)

    def delete(self, offset: int) -> None:
        self._disk.delete(self.path(offset))
        self.offsets.remove(offset)

    def delete_after(self, offset: int) -> bool:
        """True when there was one."""
        later = [known for known in self.offsets if known > offset]
        for known in later:
            self.delete(known)
        return bool(later)

    def delete_stray(self, bases: list[int]) -> None:
        """Keep those at the beginning of a segment and the latest."""
        keep = {*bases, self.latest}
        for offset in [o for o in self.offsets if o not in keep]:
            self.delete(offset)

    def forget(self, offset: int) -> None:
        """The file went with its segment."""
        if offset in self.offsets:
            self.offsets.remove(offset)

    def load_latest(self, producers: ProducerState, end_offset: int, now_ms: int) -> int | None:
        """Take the newest snapshot that is whole and not past the end; its offset."""
        self.delete_after(end_offset)
        for offset in reversed(self.offsets):
            try:
                data = self._disk.read(self.path(offset))
            except AbsentError:
                data = b""
            if producers.load_snapshot(data, offset, now_ms):
                return offset
            self.delete(offset)
        return None


def load_producers(
    producers: ProducerState,
    snapshots: SnapshotFiles,
    segments: list[Segment],
    end_offset: int,
    *,
    now_ms: int,
    believe_absence: bool,
) -> list[str]:
    """The newest snapshot, and the batches after it. Returns the snapshots that were written.

    A clean stop writes a snapshot whenever there is something to say. Without any there were no
    producers, and with `believe_absence` the log need not be read.
    """
    producers.by_id.clear()
    start = snapshots.load_latest(producers, end_offset, now_ms)
    if start is None and believe_absence:
        producers.end_offset = end_offset
        return []
    written: list[str] = []

    def take_missing(base_offset: int) -> None:
        if base_offset > snapshots.latest:
            written.append(snapshots.write(producers, base_offset))

    start = segments[0].base_offset if start is None else start
    replay_producers(producers, segments, start, end_offset, take_missing)
    return written


def replay_producers(
    producers: ProducerState,
    segments: list[Segment],
    start_offset: int,
    end_offset: int,
    at_segment: Callable[[int], None] = lambda base_offset: None,
) -> None:
    """Bring the state from `start_offset` to the log's end. `at_segment` is told of each base."""
    first = max(bisect_right(segments, start_offset, key=lambda s: s.base_offset) - 1, 0)
    for at, segment in enumerate(segments[first:]):
        if at > 0 and segment.base_offset > start_offset:
            producers.end_offset = segment.base_offset
            at_segment(segment.base_offset)
        if start_offset >= end_offset:
            continue
        file = segment.log_file()
        found = segment.find(start_offset) if at == 0 and start_offset else (0, None)
        if found is None:
            continue
        for position, header in segment.walk(found[0]):
            batch = file.read_at(position, header.size) if header.is_control else b""
            producers.observe(header, coordinator_epoch(batch, header))
    producers.end_offset = end_offset


def coordinator_epoch(batch: Buffer, header: BatchHeader) -> int:
    """What a transaction marker says of the coordinator that wrote it; -1 for anything else."""
    if not header.is_control or header.producer_id < 0:
        return -1
    try:
        marker = next(iterate(batch), None)
    except CorruptRecordsError:
        return -1
    if marker is None or marker.value is None or len(marker.value) < 6:
        return -1
    # An i16 version, then the epoch.
    return int.from_bytes(marker.value[2:6], "big", signed=True)
