"""Opening a log: what a clean stop left is believed, what a crash left is checked.

After a clean stop only the names, the sizes and the end of the active segment are read. After a
crash everything from the segment that has the recovery point on is scanned: the log ends before the
first batch that is torn or wrong, and nothing behind that is kept. What lies before the recovery
point was synced, and is believed.
"""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

from pykraft.core.log.config import LogConfig
from pykraft.core.log.epochs import LeaderEpochs
from pykraft.core.log.files import OpenFiles
from pykraft.core.log.recovery_report import RecoveryReport
from pykraft.core.log.scanning import REPLAY_BYTES, walk
from pykraft.core.log.segment import (
    BASE_OFFSET_MAX,
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
from pykraft.core.storage import AbsentError, Disk, File, StorageError
from pykraft.records.batch import BatchHeader

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
        self._check(base_offset)
        disk = self.files.disk
        prefix = file_prefix(self.folder, base_offset)
        for suffix in (INDEX, TIME_INDEX, LOG):
            self.files.forget(prefix + suffix)
            file = disk.open(prefix + suffix, create=True)
            if file.size:
                file.truncate(0)
        return self._active(file, base_offset, now_ms)

    def open_active(self, base_offset: int, now_ms: int) -> ActiveSegment:
        self._check(base_offset)
        file = self.files.disk.open(file_prefix(self.folder, base_offset) + LOG)
        return self._active(file, base_offset, now_ms)

    def open_sealed(self, base_offset: int) -> Segment:
        prefix = file_prefix(self.folder, base_offset)
        size = self.files.disk.size_of(prefix + LOG)
        return Segment(self.files, prefix, base_offset, size, self.config.index_interval_bytes)

    def _check(self, base_offset: int) -> None:
        if base_offset > BASE_OFFSET_MAX:
            raise StorageError(
                f"{self.folder}: a segment at {base_offset} could not hold its offsets;"
                f" the last that can begins at {BASE_OFFSET_MAX}"
            )

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
            segment_ms=config.segment_ms,
            jitter_ms=self.new_jitter(jitter) if jitter > 0 else 0,
            index_bytes=config.segment_index_bytes,
        )


@dataclass(slots=True)
class LoadedSegments:
    sealed: list[Segment]
    active: ActiveSegment
    end_offset: int
    # Sealed, but perhaps not yet on the disk as a whole.
    unflushed: list[Segment] = field(default_factory=list)
    report: RecoveryReport = field(default_factory=RecoveryReport)

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
        report = RecoveryReport(was_clean=True)
        end_offset = recover_segment(active, report, lambda header: None)
        return LoadedSegments(sealed, active, end_offset, report=report)
    return LoadedSegments(sealed, active, end_offset)


def recover_segment(
    active: ActiveSegment, report: RecoveryReport, observe: Callable[[BatchHeader], None]
) -> int:
    """Returns the end offset."""
    whole_size = active.size
    end_offset = active.recover(observe, was_clean=report.was_clean)
    report.rebuilt_indexes += 1
    if active.size < whole_size:
        report.cut = (active.file.path, active.size, whole_size - active.size)
    return end_offset


def load_unclean(
    opener: SegmentOpener,
    bases: list[int],
    recovery_point: int,
    epochs: LeaderEpochs,
    now_ms: int,
    *,
    gapless: bool,
) -> LoadedSegments:
    """A segment that was torn ends the log. One that lost its end exactly between two batches looks
    as one that compaction left: as in Kafka what follows is kept, unless the log is `gapless`."""
    first = max(bisect_right(bases, recovery_point) - 1, 0)
    sealed = [opener.open_sealed(base) for base in bases[:first]]
    epochs.forget_from(bases[first])
    unflushed: list[Segment] = []
    report = RecoveryReport()

    def observe(header: BatchHeader) -> None:
        epochs.observe(header.leader_epoch, header.base_offset)

    for at in range(first, len(bases)):
        active = opener.open_active(bases[at], now_ms)
        end_offset = recover_segment(active, report, observe)
        following = bases[at + 1 :]
        if not following or report.cut is not None or following[0] < end_offset:
            break
        if following[0] > end_offset:
            if gapless:
                break
            if not opener.config.compacts:
                report.gaps.append((end_offset, following[0] - 1))
        active.finish(sync=False)
        unflushed.append(active.seal())
    for base in following:
        delete_segment_files(opener, base)
    report.dropped_segments = len(following)
    return LoadedSegments(sealed + unflushed, active, end_offset, unflushed, report)


def start_over(
    opener: SegmentOpener, loaded: LoadedSegments, start_offset: int, now_ms: int
) -> LoadedSegments:
    active = opener.create(start_offset, now_ms)
    segments = (*loaded.sealed, loaded.active)
    for segment in segments:
        delete_segment_files(opener, segment.base_offset)
    loaded.report.started_over_at = start_offset
    loaded.report.dropped_segments += len(segments)
    return LoadedSegments([], active, start_offset, report=loaded.report)


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
