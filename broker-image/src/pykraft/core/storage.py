"""What the core asks of a disk. One `Disk` is one log directory; all paths are relative to it.

`runtime/disk.py` has the real one; the simulator has one that tears writes and loses what was not
synced. Every method may raise StorageError, after which the directory is to be taken offline.
"""

from collections.abc import Sequence
from typing import Protocol

from typing_extensions import Buffer


class StorageError(Exception):
    """The disk refused: full, read-only, failing. The log directory goes offline."""


class AbsentError(StorageError, FileNotFoundError):
    """A file or folder is not there: for who expects that, no failure; for all others, one."""


class File(Protocol):
    """An open file. `size` is kept by the object: reading it costs no system call."""

    path: str
    size: int

    def append(self, parts: Sequence[Buffer]) -> None:
        """Write all parts at the end, or cut the file back to what it was and raise."""

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...

    def fileno(self) -> int:
        """For sendfile; only the runtime calls it."""


class Disk(Protocol):
    def open(self, path: str, *, create: bool = False, readonly: bool = False) -> File:
        """Open for appending (after the last byte) or for reading. AbsentError if absent."""

    def list(self, path: str = "") -> list[str]:
        """Names in a directory, sorted. AbsentError if absent."""

    def exists(self, path: str) -> bool: ...

    def size_of(self, path: str) -> int:
        """AbsentError if absent."""

    def modified_ms(self, path: str) -> int:
        """When the file was last written. AbsentError if absent."""

    def read(self, path: str) -> bytes:
        """A whole small file. AbsentError if absent."""

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """Write `path`.tmp, sync it, rename it over `path`, sync the directory."""

    def make_dir(self, path: str) -> None: ...

    def rename(self, old: str, new: str) -> None:
        """Atomic; the directory is synced by `sync_dir`, not here."""

    def delete(self, path: str) -> None:
        """A file or a whole directory; absent is not an error."""

    def sync_dir(self, path: str = "") -> None:
        """AbsentError if it is absent, because it was renamed, say."""
