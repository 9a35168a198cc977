"""Which files of the older segments are open: the ones used last, up to a bound.

A file that falls out is not closed but let go: whoever is still sending from it holds it, and it is
closed when nobody does.
"""

from collections import OrderedDict

from pykraft.core.storage import Disk, File

OPEN_FILES_MAX = 1024


class OpenFiles:
    """Shared by the logs of one directory. Invariant: len(_open) <= limit."""

    def __init__(self, disk: Disk, limit: int = OPEN_FILES_MAX) -> None:
        self.disk = disk
        self.limit = limit
        self._open: OrderedDict[str, File] = OrderedDict()

    def get(self, path: str) -> File:
        """Raises AbsentError, StorageError."""
        file = self._open.get(path)
        if file is None:
            file = self.disk.open(path, readonly=True)
            self._open[path] = file
            if len(self._open) > self.limit:
                self._open.popitem(last=False)
        else:
            self._open.move_to_end(path)
        return file

    def forget(self, path: str) -> None:
        """The file is renamed, rewritten or gone."""
        self._open.pop(path, None)

    def __len__(self) -> int:
        return len(self._open)
