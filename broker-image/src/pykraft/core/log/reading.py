"""Reading a log: what it has from an offset on, and which offset a time stands for."""

from pykraft.core.log.scanning import OldFormatError, unsupported
from pykraft.core.log.segment import Segment
from pykraft.core.log.segments import FileSlice, Segments
from pykraft.core.log.time_search import TimeSearch
from pykraft.protocol.errors import ErrorCode, KafkaError


class LogReader:
    """What `PartitionLog` is to its readers. Invariant: log_start_offset <= log_end_offset."""

    __slots__ = ("_segments", "log_end_offset", "log_start_offset", "name")

    _segments: Segments
    log_end_offset: int
    log_start_offset: int
    # Also the folder's.
    name: str

    def check_offset(self, offset: int) -> None:
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is not within"
                f" [{self.log_start_offset}, {self.log_end_offset}] of {self.name}",
            )

    def read(
        self, offset: int, max_bytes: int, *, end_offset: int, at_least_one: bool
    ) -> FileSlice | None:
        """From the batch that has `offset` on, never to or past `end_offset`, of one segment.

        As in Kafka the slice may end within a batch; only the first is whole, and larger than
        `max_bytes` if it must be and `at_least_one` allows it. None when there is nothing.
        """
        if offset < self.log_start_offset or offset > self.log_end_offset:
            self.check_offset(offset)
        if offset >= end_offset:
            return None
        try:
            return self._segments.read(
                offset, max_bytes, end_offset, self.log_end_offset, at_least_one
            )
        except OldFormatError as error:
            raise unsupported(error) from error

    def search_time(self, timestamp_ms: int, from_offset: int = 0) -> TimeSearch | None:
        """Where the first record at or after that time may be; None when there is none."""
        try:
            return self._segments.search_time(timestamp_ms, self.log_start_offset, from_offset)
        except OldFormatError as error:
            raise unsupported(error) from error

    def search_latest(self) -> TimeSearch | None:
        """Where the first record is that has the largest timestamp of all."""
        try:
            return self._segments.search_latest()
        except OldFormatError as error:
            raise unsupported(error) from error

    @property
    def first_segment_offset(self) -> int:
        return self._segments.bases[0]

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(self._segments.all)
