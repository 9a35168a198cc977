"""A flush: the loop says what to sync, a worker syncs it, the loop moves the recovery point."""

from collections.abc import Callable, Sequence

from pykraft.core.log.config import LogConfig
from pykraft.core.log.segment import Segment
from pykraft.core.storage import AbsentError, Disk, File


class Flush:
    """`run` is for a worker thread: it touches nothing of the log but these files."""

    __slots__ = ("_disk", "end_offset", "file", "folders", "paths", "truncations")

    def __init__(
        self,
        disk: Disk,
        end_offset: int,
        *,
        file: File | None,
        paths: Sequence[str],
        folders: Sequence[str],
        truncations: int,
    ) -> None:
        self._disk = disk
        # All before this offset is on the disk when `run` returns.
        self.end_offset = end_offset
        self.file = file
        self.paths = paths
        self.folders = folders
        # How often the log had been cut when this began: a later cut makes the end untrue.
        self.truncations = truncations

    def run(self) -> None:
        for path in self.paths:
            try:
                opened = self._disk.open(path, readonly=True)
            except AbsentError:
                # Retention was faster.
                continue
            try:
                opened.sync()
            finally:
                opened.close()
        if self.file is not None:
            self.file.sync()
        for folder in self.folders:
            try:
                self._disk.sync_dir(folder)
            except AbsentError:
                # The topic was deleted meanwhile, and its folder renamed.
                continue


class Unsynced:
    """What a power failure would take: sealed segments, small files, entries of folders, and of
    the records those from `recovery_point` on."""

    __slots__ = (
        "_disk",
        "folders",
        "last_flush_ms",
        "on_finished",
        "paths",
        "recovery_point",
        "segments",
        "truncations",
        "under_way",
    )

    def __init__(
        self, disk: Disk, segments: list[Segment], *, recovery_point: int, now_ms: int
    ) -> None:
        self._disk = disk
        self.recovery_point = recovery_point
        self.last_flush_ms = now_ms
        self.segments = segments
        self.paths: set[str] = set()
        self.folders: set[str] = set()
        self.truncations = 0
        # One at a time: a later one that ends first would speak of what this has not synced yet.
        self.under_way: Flush | None = None
        self.on_finished: Callable[[], None] | None = None

    def __bool__(self) -> bool:
        return bool(self.segments or self.paths or self.folders)

    def forget(self, gone: Sequence[Segment]) -> None:
        """Deleted, or cut and synced for that."""
        self.segments = [segment for segment in self.segments if segment not in gone]

    def is_due(self, end_offset: int, config: LogConfig, now_ms: int) -> bool:
        """Does a sealed segment wait, or is a limit of the topic reached?"""
        if self.segments:
            return True
        unflushed = end_offset - self.recovery_point
        return unflushed > 0 and (
            unflushed >= config.flush_messages or now_ms - self.last_flush_ms >= config.flush_ms
        )

    def finish(self, flush: Flush, now_ms: int) -> None:
        assert flush is self.under_way
        self.under_way = None
        if flush.truncations == self.truncations:
            # A segment that was sealed meanwhile has indexes that are not yet synced.
            reached = min([flush.end_offset, *(s.base_offset for s in self.segments)])
            self.recovery_point = max(self.recovery_point, reached)
            self.last_flush_ms = now_ms
        if self.on_finished is not None:
            self.on_finished()

    def run_under_way(self) -> None:
        """The log closes, and nobody waited for the worker."""
        if self.under_way is not None:
            self.under_way.run()
            self.under_way = None

    def cut(self, end_offset: int) -> None:
        """The log ends there now; a flush that is under way says nothing of what comes next."""
        self.truncations += 1
        self.recovery_point = min(self.recovery_point, end_offset)

    def take(self, end_offset: int, file: File | None) -> Flush:
        """Hand it all over. If the flush fails, the directory goes offline: nobody asks again."""
        assert self.under_way is None
        paths = [path for segment in self.segments for path in segment.file_names()[:3]]
        self.under_way = flush = Flush(
            self._disk,
            end_offset,
            file=file,
            paths=paths + sorted(self.paths),
            folders=sorted(self.folders),
            truncations=self.truncations,
        )
        self.segments, self.paths, self.folders = [], set(), set()
        return flush
