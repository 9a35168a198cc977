"""Opening a log: what a clean stop left is believed, what a crash left is checked.

After a clean stop only the names, the sizes and the end of the active segment are read. After a
crash everything from the segment that has the recovery point on is scanned: the log ends before the
first batch that is torn or wrong, and nothing behind that is kept. What lies before the recovery
point was synced, and is believed.
"""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

from typing_extensions import Buffer

from pykraft.core.log.config import LogConfig
from pykraft.core.log.epochs import LeaderEpochs
from pykraft.core.log.files import OpenFiles
from pykraft.core.log.producer_state import ProducerState
from pykraft.core.log.scanning import REPLAY_BYTES, walk
from pykraft.core.log.segment import (
    DELETED,
    INDEX,
    LOG,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    ActiveSegment,
    Segment,
    file_prefix,
)
from pykraft.core.storage import AbsentError, Disk, File
from pykraft.records.batch import BatchHeader
from pykraft.records.compression import CorruptRecordsError
from pykraft.records.records import iterate

CLEANED = ".cleaned"
SWAP = ".swap"
TEMPORARY = ".tmp"
OFFSET_DIGITS = 20


class SegmentOpener:
    """Makes the segments of one log, with what its configuration says about them."""

    __slots__ = ("config", "files", "folder", "new_jitter")

    def __init__(
        self, files: OpenFiles, folder: str, config: LogConfig, new_jitter: Callable[[int], int]
    ) -> None:
        self.files = files
        self.folder = folder
        self.config = config
        self.new_jitter = new_jitter

    def create(self, base_offset: int, now_ms: int) -> ActiveSegment:
        """A new segment, empty also if files of that name are left from something."""
        disk = self.files.disk
        prefix = file_prefix(self.folder, base_offset)
        for suffix in (INDEX, TIME_INDEX, LOG):
            self.files.forget(prefix + suffix)
            file = disk.open(prefix + suffix, create=True)
            if file.size:
                file.truncate(0)
        return self._active(file, base_offset, now_ms)

    def open_active(self, base_offset: int, now_ms: int) -> ActiveSegment:
        file = self.files.disk.open(file_prefix(self.folder, base_offset) + LOG)
        return self._active(file, base_offset, now_ms)

    def open_sealed(self, base_offset: int) -> Segment:
        prefix = file_prefix(self.folder, base_offset)
        size = self.files.disk.size_of(prefix + LOG)
        return Segment(self.files, prefix, base_offset, size, self.config.index_interval_bytes)

    def _active(self, file: File, base_offset: int, now_ms: int) -> ActiveSegment:
        config = self.config
        jitter = min(config.segment_jitter_ms, config.segment_ms)
        return ActiveSegment(
            self.files,
            file_prefix(self.folder, base_offset),
            base_offset,
            file,
            config.index_interval_bytes,
            now_ms=now_ms,
            roll_ms=config.segment_ms - (self.new_jitter(jitter) if jitter > 0 else 0),
            index_bytes=config.segment_index_bytes,
        )


@dataclass(slots=True)
class LoadedSegments:
    sealed: list[Segment]
    active: ActiveSegment
    end_offset: int
    # Sealed, but perhaps not yet on the disk as a whole.
    unflushed: list[Segment] = field(default_factory=list)

    @property
    def base_offset(self) -> int:
        return (self.sealed or [self.active])[0].base_offset


def offsets_of(names: list[str], suffix: str) -> list[int]:
    """The offsets of the files with that suffix, in order."""
    size = OFFSET_DIGITS + len(suffix)
    return [
        int(name[:OFFSET_DIGITS])
        for name in names
        if len(name) == size and name.endswith(suffix) and name[:OFFSET_DIGITS].isdecimal()
    ]


def clear_leftovers(disk: Disk, folder: str, names: list[str]) -> list[str]:
    """Remove what a crash left half done, finish what a compaction had decided; what remains."""
    unfinished = [int(name[:OFFSET_DIGITS]) for name in names if name.endswith(CLEANED)]
    swaps = [name for name in names if name.endswith(LOG + SWAP)]
    # A swap above the lowest unfinished file belongs to a compaction that was not yet decided.
    decided = [
        name for name in swaps if not unfinished or int(name[:OFFSET_DIGITS]) < min(unfinished)
    ]
    doomed = [n for n in names if n.endswith((DELETED, CLEANED, SWAP, TEMPORARY))]
    if not doomed:
        return _without_orphans(disk, folder, names)
    for name in decided:
        _finish_swap(disk, folder, name, names)
    for name in doomed:
        if name not in decided:
            disk.delete(f"{folder}/{name}")
    return _without_orphans(disk, folder, disk.list(folder))


def _finish_swap(disk: Disk, folder: str, swap: str, names: list[str]) -> None:
    """The compacted segment replaces those whose records it has; its indexes are built anew."""
    base_offset = int(swap[:OFFSET_DIGITS])
    file = disk.open(f"{folder}/{swap}", readonly=True)
    end_offset = base_offset
    for _, header in walk(file, 0, file.size, REPLAY_BYTES):
        end_offset = header.last_offset + 1
    for offset in offsets_of(names, LOG):
        if base_offset <= offset < max(end_offset, base_offset + 1):
            prefix = file_prefix(folder, offset)
            for suffix in (LOG, INDEX, TIME_INDEX, TXN_INDEX):
                disk.delete(prefix + suffix)
    disk.rename(f"{folder}/{swap}", f"{folder}/{swap[: -len(SWAP)]}")


def _without_orphans(disk: Disk, folder: str, names: list[str]) -> list[str]:
    """An index without its log says nothing."""
    logs = set(offsets_of(names, LOG))
    kept = []
    for name in names:
        is_index = name.endswith((INDEX, TIME_INDEX, TXN_INDEX))
        if is_index and name[:OFFSET_DIGITS].isdecimal() and int(name[:OFFSET_DIGITS]) not in logs:
            disk.delete(f"{folder}/{name}")
        else:
            kept.append(name)
    return kept


def list_folder(disk: Disk, folder: str) -> list[str]:
    """The files of a log, which is created if it is not there."""
    try:
        return clear_leftovers(disk, folder, disk.list(folder))
    except AbsentError:
        disk.make_dir(folder)
        return []


def load_clean(
    opener: SegmentOpener, bases: list[int], start_offset: int, now_ms: int
) -> LoadedSegments:
    if not bases:
        return LoadedSegments([], opener.create(start_offset, now_ms), start_offset)
    sealed = [opener.open_sealed(base) for base in bases[:-1]]
    active = opener.open_active(bases[-1], now_ms)
    end_offset = active.resume()
    if end_offset is None:
        # Not as a clean stop leaves it: somebody meddled, or the disk forgot.
        end_offset = active.recover(lambda header: None)
    return LoadedSegments(sealed, active, end_offset)


def load_unclean(
    opener: SegmentOpener,
    bases: list[int],
    recovery_point: int,
    epochs: LeaderEpochs,
    now_ms: int,
) -> LoadedSegments:
    first = max(bisect_right(bases, recovery_point) - 1, 0)
    sealed = [opener.open_sealed(base) for base in bases[:first]]
    epochs.forget_from(bases[first])
    unflushed: list[Segment] = []

    def observe(header: BatchHeader) -> None:
        epochs.observe(header.leader_epoch, header.base_offset)

    for at in range(first, len(bases)):
        active = opener.open_active(bases[at], now_ms)
        whole_size = active.size
        end_offset = active.recover(observe)
        following = bases[at + 1 :]
        # A segment may also have lost its end exactly between two batches. Compaction leaves
        # such gaps too, but only in what is already synced.
        broken = active.size < whole_size or (
            following and following[0] != end_offset and not opener.config.compacts
        )
        if not following or broken:
            break
        active.finish(sync=False)
        unflushed.append(active.seal())
    for base in following:
        delete_segment_files(opener, base)
    return LoadedSegments(sealed + unflushed, active, end_offset, unflushed)


def start_over(
    opener: SegmentOpener, loaded: LoadedSegments, start_offset: int, now_ms: int
) -> LoadedSegments:
    for segment in (*loaded.sealed, loaded.active):
        delete_segment_files(opener, segment.base_offset)
    return LoadedSegments([], opener.create(start_offset, now_ms), start_offset)


def delete_segment_files(opener: SegmentOpener, base_offset: int) -> None:
    prefix = file_prefix(opener.folder, base_offset)
    for suffix in (LOG, INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT):
        opener.files.forget(prefix + suffix)
        opener.files.disk.delete(prefix + suffix)


def rebuild_epochs(epochs: LeaderEpochs, segments: list[Segment]) -> None:
    """From all batches: slow, and only when the file is lost."""
    epochs.forget_from(0)
    for segment in segments:
        for _, header in segment.walk():
            epochs.observe(header.leader_epoch, header.base_offset)


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
