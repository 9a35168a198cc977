"""Which batches get an index entry: the rule that appending, recovery and rebuilding share."""

from pykraft.core.log.index import OffsetIndex, TimeIndex
from pykraft.records.batch import NO_TIMESTAMP


class IndexBuilder:
    """A batch gets an entry when it begins over `interval` bytes behind the last that has one."""

    __slots__ = (
        "base_offset",
        "indexed_position",
        "interval",
        "max_timestamp",
        "max_timestamp_offset",
        "offsets",
        "times",
    )

    def __init__(
        self, base_offset: int, interval: int, offsets: OffsetIndex, times: TimeIndex
    ) -> None:
        self.base_offset = base_offset
        self.interval = interval
        self.offsets = offsets
        self.times = times
        self.indexed_position = 0
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset

    def note(self, position: int, last_offset: int, max_timestamp: int) -> None:
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if position - self.indexed_position > self.interval:
            self.add_entry(position, last_offset)
            if self.offsets.wants_writing:
                self.write()

    def add_entry(self, position: int, last_offset: int) -> None:
        self.offsets.add(last_offset - self.base_offset, position)
        self.times.add_if_later(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
        self.indexed_position = position

    def write(self) -> None:
        self.offsets.write()
        self.times.write()

    def sync(self) -> None:
        self.offsets.sync()
        self.times.sync()

    def finish(self) -> None:
        """The last time entry says what the latest timestamp of the whole segment is."""
        self.times.add_if_later(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
        self.write()
