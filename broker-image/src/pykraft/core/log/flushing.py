"""A flush: the loop says what to sync, a worker syncs it, the loop moves the recovery point."""

from collections.abc import Sequence

from pykraft.core.log.segment import Segment
from pykraft.core.storage import Disk, File


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
            except FileNotFoundError:
                # Retention was faster.
                continue
            try:
                opened.sync()
            finally:
                opened.close()
        if self.file is not None:
            self.file.sync()
        for folder in self.folders:
            self._disk.sync_dir(folder)


class Unsynced:
    """What a power failure would take: sealed segments, small files, entries of folders."""

    __slots__ = ("_disk", "folders", "paths", "segments", "truncations")

    def __init__(self, disk: Disk, segments: list[Segment]) -> None:
        self._disk = disk
        self.segments = segments
        self.paths: set[str] = set()
        self.folders: set[str] = set()
        self.truncations = 0

    def __bool__(self) -> bool:
        return bool(self.segments or self.paths or self.folders)

    def forget(self, gone: Sequence[Segment]) -> None:
        """Deleted, or cut and synced for that."""
        self.segments = [segment for segment in self.segments if segment not in gone]

    def take(self, end_offset: int, file: File | None) -> Flush:
        """Hand it all over. If the flush fails, the directory goes offline: nobody asks again."""
        paths = [path for segment in self.segments for path in segment.file_names()[:3]]
        flush = Flush(
            self._disk,
            end_offset,
            file=file,
            paths=paths + sorted(self.paths),
            folders=sorted(self.folders),
            truncations=self.truncations,
        )
        self.segments, self.paths, self.folders = [], set(), set()
        return flush
