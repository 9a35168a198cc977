"""The sparse indexes of a segment: `.index` (offset to position) and `.timeindex` (time to offset).

An index is a hint: it says where to begin to look. What was appended last is held in memory and
written out in stretches, so that an index costs a few kilobytes however large it is, and no file
stays open for it. A crash may lose or spoil what was written; recovery builds it anew.
"""

import struct
from typing import ClassVar

from pykraft.core.log.files import OpenFiles
from pykraft.core.storage import AbsentError

# In memory before it is written out: with the default interval, some two megabytes of log.
TAIL_ENTRIES_MAX = 512
# Fewer entries than this are read in one go instead of being searched one by one.
PAGE_ENTRIES = 256

Entry = tuple[int, int]


class IndexDamagedError(Exception):
    """The file is absent or is not what we wrote: build it anew from the log."""


class Index:
    """Entries grow in both columns. Invariant: `entries` == entries in the file + in the tail."""

    __slots__ = ("_files", "_tail", "_written", "entries", "last", "path", "unsynced")
    ENTRY: ClassVar[struct.Struct]
    EMPTY: ClassVar[Entry]

    def __init__(self, files: OpenFiles, path: str) -> None:
        self._files = files
        self.path = path
        self._tail = bytearray()
        self._written = 0
        self.entries = 0
        self.last: Entry = self.EMPTY
        # Written since it was last synced; what that means is for the segment to know.
        self.unsynced = False

    def load(self) -> None:
        """Look at what the file has. Raises IndexDamagedError when it cannot be true."""
        try:
            size = self._files.disk.size_of(self.path)
        except AbsentError as error:
            raise IndexDamagedError(self.path) from error
        count, odd = divmod(size, self.ENTRY.size)
        if odd:
            raise IndexDamagedError(self.path)
        self._tail.clear()
        self._written = self.entries = count
        self.last = self._read(count - 1) if count else self.EMPTY
        # Kafka reserves an active index with zeros, which stay behind when it is killed.
        if count and (min(self.last) < 0 or (count > 1 and self.last[0] == 0)):
            raise IndexDamagedError(self.path)

    def add(self, first: int, second: int) -> None:
        self._tail += self.ENTRY.pack(first, second)
        self.entries += 1
        self.last = (first, second)

    @property
    def wants_writing(self) -> bool:
        return len(self._tail) >= TAIL_ENTRIES_MAX * self.ENTRY.size

    def write(self) -> None:
        """Bring the tail to the file. On StorageError it stays in memory."""
        if not self._tail:
            return
        file = self._files.disk.open(self.path, create=True)
        try:
            if file.size != self._written * self.ENTRY.size:
                file.truncate(self._written * self.ENTRY.size)
            file.append([self._tail])
        finally:
            file.close()
        self._written = self.entries
        self._tail = bytearray()
        self.unsynced = True

    def sync(self) -> None:
        if self.unsynced:
            file = self._files.disk.open(self.path, readonly=True)
            try:
                file.sync()
            finally:
                file.close()
            self.unsynced = False

    def keep(self, count: int) -> None:
        """Drop all entries but the first `count`."""
        if count >= self.entries:
            return
        if count >= self._written:
            del self._tail[(count - self._written) * self.ENTRY.size :]
        else:
            self._tail.clear()
            self._cut_file(count)
        self.entries = count
        self.last = self.entry(count - 1) if count else self.EMPTY

    def clear(self) -> None:
        """Empty also a file that was never looked at."""
        self._tail.clear()
        self.entries = 0
        self.last = self.EMPTY
        self._cut_file(0)

    def _cut_file(self, count: int) -> None:
        file = self._files.disk.open(self.path, create=True)
        try:
            file.truncate(count * self.ENTRY.size)
        finally:
            file.close()
        self._written = count
        self.unsynced = True

    def entry(self, at: int) -> Entry:
        if at >= self._written:
            first, second = self.ENTRY.unpack_from(
                self._tail, (at - self._written) * self.ENTRY.size
            )
            return first, second
        return self._read(at)

    def find(self, key: int) -> Entry | None:
        """The last entry whose first column is not above `key`."""
        count = self.count_up_to(key)
        return self.entry(count - 1) if count else None

    def count_up_to(self, key: int) -> int:
        """How many entries have a first column not above `key`."""
        if not self.entries or key >= self.last[0]:
            return self.entries
        if self._tail and self.ENTRY.unpack_from(self._tail)[0] <= key:
            return self._written + self._search(self._tail, key)
        if not self._written:
            return 0
        low, high = 0, self._written
        while high - low > PAGE_ENTRIES:
            middle = (low + high) // 2
            if self._read(middle)[0] <= key:
                low = middle + 1
            else:
                high = middle
        return low + self._search(self._read_page(low, high), key)

    def _search(self, page: bytes | bytearray, key: int) -> int:
        unpack = self.ENTRY.unpack_from
        size = self.ENTRY.size
        low, high = 0, len(page) // size
        while low < high:
            middle = (low + high) // 2
            if unpack(page, middle * size)[0] <= key:
                low = middle + 1
            else:
                high = middle
        return low

    def _read(self, at: int) -> Entry:
        first, second = self.ENTRY.unpack(self._read_page(at, at + 1))
        return first, second

    def _read_page(self, low: int, high: int) -> bytes:
        size = self.ENTRY.size
        try:
            page = self._files.get(self.path).read_at(low * size, (high - low) * size)
        except AbsentError as error:
            raise IndexDamagedError(self.path) from error
        if len(page) != (high - low) * size:
            raise IndexDamagedError(self.path)
        return page


class OffsetIndex(Index):
    """The last offset of a batch, relative to the segment's base, and the batch's position."""

    __slots__ = ()
    ENTRY = struct.Struct(">ii")
    EMPTY = (0, 0)


class TimeIndex(Index):
    """The largest timestamp so far, and the last offset of the batch that has it, relative."""

    __slots__ = ()
    ENTRY = struct.Struct(">qi")
    EMPTY = (-1, 0)

    def add_if_later(self, timestamp: int, relative_offset: int) -> None:
        if timestamp > self.last[0]:
            self.add(timestamp, relative_offset)
