"""Which offset a time stands for: the loop says where to look, a worker reads and unpacks."""

from collections.abc import Iterator
from typing import NamedTuple

from pykraft.core.log.scanning import OldFormatError, unsupported, walk
from pykraft.core.storage import File
from pykraft.records.batch import BatchHeader
from pykraft.records.compression import CorruptRecordsError
from pykraft.records.records import iterate


class FoundOffset(NamedTuple):
    timestamp_ms: int
    offset: int
    leader_epoch: int


class TimeSearch:
    """One segment to look through. `run` is for a worker thread: it touches nothing of the log but
    this file, which it holds open."""

    __slots__ = ("_end", "_file", "_position", "_start_offset", "_timestamp_ms", "next_offset")

    def __init__(
        self,
        file: File,
        position: int,
        end: int,
        *,
        timestamp_ms: int,
        start_offset: int,
        next_offset: int,
    ) -> None:
        self._file = file
        self._position = position
        self._end = end
        self._timestamp_ms = timestamp_ms
        self._start_offset = start_offset
        # Where to go on when nothing is found, because a header promised what no record keeps.
        self.next_offset = next_offset

    def run(self) -> FoundOffset | None:
        """The first record at or after the time. Raises StorageError, KafkaError."""
        try:
            for position, header in walk(self._file, self._position, self._end):
                if (
                    header.max_timestamp >= self._timestamp_ms
                    and header.last_offset >= self._start_offset
                ):
                    for at, offset in self._times(position, header):
                        if at >= self._timestamp_ms and offset >= self._start_offset:
                            return FoundOffset(at, offset, header.leader_epoch)
        except OldFormatError as error:
            raise unsupported(error) from error
        return None

    def _times(self, position: int, header: BatchHeader) -> Iterator[tuple[int, int]]:
        """The time and the offset of each record in a batch.

        What a client has compressed is not unpacked before it is stored. A batch that cannot be
        must not stand in the way of look-ups for as long as it lives: its header speaks for the
        rest of it.
        """
        offset = header.base_offset
        try:
            for record in iterate(self._file.read_at(position, header.size)):
                assert record.timestamp_ms is not None
                yield record.timestamp_ms, record.offset
                offset = record.offset + 1
        except CorruptRecordsError:
            yield header.max_timestamp, min(max(offset, self._start_offset), header.last_offset)
