"""A disk in memory that can lose power.

What was synced survives. Of what was not, anything may happen that journalling file systems allow:
the end of a file is lost, cut within a write, or full of zeros or garbage; an old end that was cut
off comes back; creations, renames and deletions in a folder are lost from some point on.
"""

from collections.abc import Callable, Sequence
from random import Random

from typing_extensions import Buffer

from pykraft.core.storage import AbsentError, StorageError

SECTOR_BYTES = 512
Entries = dict[str, "Inode"]


class Inode:
    """Invariant: the first `common` bytes of `data` and of `durable` are the same."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.modified_ms = 0
        self.durable = b""
        self.common = 0

    def sync(self) -> None:
        self.durable = bytes(self.data)
        self.common = len(self.durable)

    def truncate(self, size: int) -> None:
        del self.data[size:]
        self.data.extend(bytes(size - len(self.data)))
        self.common = min(self.common, size)

    def lose_power(self, random: Random) -> None:
        if random.random() < 0.3:
            self.data = bytearray(self.durable)
        else:
            del self.data[random.randint(self.common, len(self.data)) :]
            if random.random() < 0.4:
                self._spoil(random)
        self.sync()

    def _spoil(self, random: Random) -> None:
        """One sector, or the rest, of what was never synced holds something else."""
        if len(self.data) == self.common:
            return
        start = random.randrange(self.common, len(self.data))
        size = min(random.choice((SECTOR_BYTES, len(self.data))), len(self.data) - start)
        filler = bytes(size) if random.random() < 0.5 else random.randbytes(size)
        self.data[start : start + size] = filler


class SimFile:
    def __init__(self, disk: "SimDisk", path: str, inode: Inode) -> None:
        self._disk = disk
        self._inode = inode
        self.path = path
        self.size = len(inode.data)

    def append(self, parts: Sequence[Buffer]) -> None:
        self._disk.may_fail(self.path)
        assert self.size == len(self._inode.data), f"two writers of {self.path}"
        for part in parts:
            self._inode.data += part
        self._inode.modified_ms = self._disk.now_ms
        self.size = len(self._inode.data)

    def read_at(self, position: int, size: int) -> bytes:
        return bytes(self._inode.data[position : position + size])

    def truncate(self, size: int) -> None:
        self._disk.may_fail(self.path)
        self._inode.truncate(size)
        self._inode.modified_ms = self._disk.now_ms
        self.size = size

    def sync(self) -> None:
        self._inode.sync()

    def close(self) -> None:
        return None

    def fileno(self) -> int:
        raise AssertionError("the core never asks for it")


class SimDisk:
    """`writes_until_failure` counts down: at zero every change raises StorageError."""

    def __init__(self) -> None:
        self._entries: Entries = {}
        self._durable: Entries = {}
        self._folders: set[str] = {""}
        self._durable_folders: set[str] = {""}
        # Per folder, what has not been synced, in order.
        self._pending: dict[str, list[Callable[[], None]]] = {}
        self.writes_until_failure: int | None = None
        # The clock of the file system.
        self.now_ms = 0

    def may_fail(self, path: str) -> None:
        if self.writes_until_failure is None:
            return
        if self.writes_until_failure == 0:
            raise StorageError(f"{path}: no space left on device")
        self.writes_until_failure -= 1

    # Power

    def lose_power(self, random: Random) -> None:
        for folder in sorted(self._pending):
            ops = self._pending[folder]
            for op in ops[: random.randint(0, len(ops))]:
                op()
        self._pending.clear()
        self._folders = set(self._durable_folders)
        self._entries = {
            path: inode
            for path, inode in self._durable.items()
            if path.rpartition("/")[0] in self._folders
        }
        self._durable = dict(self._entries)
        for path in sorted(self._entries):
            self._entries[path].lose_power(random)
        self.writes_until_failure = None

    def _later(self, path: str, op: Callable[[], None]) -> None:
        self._pending.setdefault(path.rpartition("/")[0], []).append(op)

    # What `Disk` asks for

    def open(self, path: str, *, create: bool = False, readonly: bool = False) -> SimFile:
        inode = self._entries.get(path)
        if inode is None:
            if not create or readonly:
                raise AbsentError(path)
            self.may_fail(path)
            inode = self._link(path, Inode())
        return SimFile(self, path, inode)

    def _link(self, path: str, inode: Inode) -> Inode:
        assert path.rpartition("/")[0] in self._folders, path

        def link() -> None:
            self._durable[path] = inode

        self._entries[path] = inode
        self._later(path, link)
        return inode

    def list(self, path: str = "") -> list[str]:
        if path not in self._folders:
            raise AbsentError(path)
        prefix = f"{path}/" if path else ""
        names = {*self._entries, *self._folders} - {""}
        inside = (name[len(prefix) :] for name in names if name.startswith(prefix))
        return sorted(name for name in inside if "/" not in name)

    def exists(self, path: str) -> bool:
        return path in self._entries or path in self._folders

    def size_of(self, path: str) -> int:
        return len(self._inode(path).data)

    def modified_ms(self, path: str) -> int:
        return self._inode(path).modified_ms

    def read(self, path: str) -> bytes:
        return bytes(self._inode(path).data)

    def _inode(self, path: str) -> Inode:
        if path not in self._entries:
            raise AbsentError(path)
        return self._entries[path]

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        self.may_fail(path)
        inode = Inode()
        inode.data += data
        inode.modified_ms = self.now_ms
        if sync:
            inode.sync()
        self._link(path, inode)
        if sync:
            self.sync_dir(path.rpartition("/")[0])

    def make_dir(self, path: str) -> None:
        self._folders.add(path)
        self._later(path, lambda: self._durable_folders.add(path))

    def rename(self, old: str, new: str) -> None:
        self.may_fail(old)

        def rename() -> None:
            if old in self._durable:
                self._durable[new] = self._durable.pop(old)

        self._entries[new] = self._inode(old)
        del self._entries[old]
        self._later(old, rename)

    def delete(self, path: str) -> None:
        self._entries.pop(path, None)
        self._later(path, lambda: self._durable.pop(path, None) and None)

    def sync_dir(self, path: str = "") -> None:
        if path not in self._folders:
            raise AbsentError(path)
        for op in self._pending.pop(path, []):
            op()
