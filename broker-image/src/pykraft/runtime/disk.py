"""The real disk: one log directory over system calls.

Nothing is buffered here: what `append` returned from is with the kernel and survives the process,
what `sync` returned from survives the machine.
"""

import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from typing_extensions import Buffer

from pykraft.core.storage import AbsentError, StorageError


@contextmanager
def _storage_errors(path: str, *, may_be_absent: bool = False) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if may_be_absent and isinstance(error, FileNotFoundError):
            raise AbsentError(f"{path}: {error.strerror}") from error
        raise StorageError(f"{path}: {error.strerror}") from error


class RealFile:
    """Closed when the last who holds it lets go, so that a slow sender keeps what it sends."""

    __slots__ = ("__weakref__", "_fd", "path", "size")

    def __init__(self, path: str, fd: int, size: int) -> None:
        self.path = path
        self.size = size
        self._fd = fd

    def append(self, parts: Sequence[Buffer]) -> None:
        try:
            written = os.writev(self._fd, parts)
            wanted = 0
            for part in parts:
                wanted += len(part)  # type: ignore[arg-type]
            if written != wanted:
                self._finish(b"".join(parts), written)
        except OSError as error:
            self._cut_back(error)
            raise StorageError(f"{self.path}: {error.strerror}") from error
        self.size += wanted

    def _finish(self, data: bytes, written: int) -> None:
        """The kernel took only a part: a signal, or a disk that is nearly full."""
        while written < len(data):
            count = os.write(self._fd, memoryview(data)[written:])
            if count == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written += count

    def _cut_back(self, error: OSError) -> None:
        """Half a batch must not stay in front of the next one."""
        try:
            os.ftruncate(self._fd, self.size)
        except OSError as second:
            raise StorageError(
                f"{self.path}: {error.strerror}; cutting back failed: {second.strerror}"
            ) from error

    def read_at(self, position: int, size: int) -> bytes:
        try:
            return os.pread(self._fd, size, position)
        except OSError as error:
            raise StorageError(f"{self.path}: {error.strerror}") from error

    def truncate(self, size: int) -> None:
        with _storage_errors(self.path):
            os.ftruncate(self._fd, size)
        self.size = size

    def sync(self) -> None:
        with _storage_errors(self.path):
            os.fdatasync(self._fd)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()

    def fileno(self) -> int:
        return self._fd


class RealDisk:
    def __init__(self, root: str) -> None:
        self.root = root
        self._prefix = root.rstrip("/") + "/"

    def open(self, path: str, *, create: bool = False, readonly: bool = False) -> RealFile:
        flags = os.O_RDONLY if readonly else os.O_RDWR | os.O_APPEND
        if create:
            flags |= os.O_CREAT
        with _storage_errors(path, may_be_absent=not create):
            fd = os.open(self._prefix + path, flags | os.O_CLOEXEC, 0o644)
            return RealFile(path, fd, os.fstat(fd).st_size)

    def list(self, path: str = "") -> list[str]:
        with _storage_errors(path, may_be_absent=True):
            return sorted(os.listdir(self._prefix + path))

    def exists(self, path: str) -> bool:
        return os.path.exists(self._prefix + path)

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(self._prefix + path)

    def size_of(self, path: str) -> int:
        with _storage_errors(path, may_be_absent=True):
            return os.stat(self._prefix + path).st_size

    def modified_ms(self, path: str) -> int:
        with _storage_errors(path, may_be_absent=True):
            return os.stat(self._prefix + path).st_mtime_ns // 1_000_000

    def read(self, path: str) -> bytes:
        with (
            _storage_errors(path, may_be_absent=True),
            open(self._prefix + path, "rb", buffering=0) as file,
        ):
            return file.read()

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        full = self._prefix + path
        with _storage_errors(path):
            with open(full + ".tmp", "wb", buffering=0) as file:
                view = memoryview(data)
                while view:
                    view = view[file.write(view) :]
                if sync:
                    os.fdatasync(file.fileno())
            os.replace(full + ".tmp", full)
            if sync:
                self._sync_folder(os.path.dirname(full))

    def make_dir(self, path: str) -> None:
        with _storage_errors(path):
            os.makedirs(self._prefix + path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        with _storage_errors(old):
            os.replace(self._prefix + old, self._prefix + new)

    def delete(self, path: str) -> None:
        full = self._prefix + path
        with _storage_errors(path):
            try:
                os.unlink(full)
            except FileNotFoundError:
                return
            except (IsADirectoryError, PermissionError):
                # Linux answers EISDIR, other systems EPERM.
                if not os.path.isdir(full):
                    raise
                shutil.rmtree(full)

    def sync_dir(self, path: str = "") -> None:
        with _storage_errors(path, may_be_absent=True):
            self._sync_folder(self._prefix + path)

    def _sync_folder(self, full: str) -> None:
        fd = os.open(full, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
