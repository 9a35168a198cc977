"""Looking for a time in a log to the end, as ListOffsets does, but without a worker."""

from pykraft.core.log.partition_log import PartitionLog
from pykraft.core.log.time_search import FoundOffset


def offset_for_timestamp(log: PartitionLog, timestamp_ms: int) -> FoundOffset | None:
    search = log.search_time(timestamp_ms)
    while search is not None:
        found = search.run()
        if found is not None:
            return found
        search = log.search_time(timestamp_ms, search.next_offset)
    return None


def max_timestamp(log: PartitionLog) -> FoundOffset | None:
    search = log.search_latest()
    return search.run() if search is not None else None
