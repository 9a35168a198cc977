"""ListOffsets, v1 to v11, and OffsetForLeaderEpoch, v2 to v4.

Behaviour: by timestamp, and the named positions: latest (-1; the last stable offset for
read_committed), earliest (-2), max timestamp (-3, v7), earliest local (-4, v8; all is local here),
latest tiered (-5, v9) and earliest pending upload (-6, v11), which are unknown (-1) as in Kafka
without tiering. A timestamp that the version does not know is refused with UNSUPPORTED_VERSION, a
partition named twice with INVALID_REQUEST. A search by time reads one index interval of one
segment, so it is done on the loop.
Absent: reading from remote storage, hence the time-out of v10 is never reached.
"""

from collections import Counter
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from pykraft.core.replication.partition import Partition
from pykraft.core.storage import StorageError
from pykraft.handlers.context import Broker, RequestContext
from pykraft.protocol.decoding import Message
from pykraft.protocol.errors import ErrorCode, KafkaError
from pykraft.protocol.hot_responses import OffsetReply, encode_list_offsets_response


class Position(IntEnum):
    """The timestamps that stand for a position."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


# The version that brought a position.
_FROM_VERSION: Mapping[int, int] = {
    Position.LATEST: 0,
    Position.EARLIEST: 0,
    Position.MAX_TIMESTAMP: 7,
    Position.EARLIEST_LOCAL: 8,
    Position.LATEST_TIERED: 9,
    Position.EARLIEST_PENDING_UPLOAD: 11,
}

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
CONSUMER = -1

UNKNOWN_OFFSET = -1
UNKNOWN_TIMESTAMP = -1
UNKNOWN_EPOCH = -1

# timestamp, offset, leader epoch
Found = tuple[int, int, int]
NOT_FOUND: Found = (UNKNOWN_TIMESTAMP, UNKNOWN_OFFSET, UNKNOWN_EPOCH)


def handle_list_offsets(broker: Broker, context: RequestContext, request: Message) -> None:
    named = Counter((t.name, p.partition_index) for t in request.topics for p in t.partitions)
    lister = _Lister(broker, context, request, {key for key, n in named.items() if n > 1})
    answered: dict[str, dict[int, OffsetReply]] = {}
    for topic in request.topics:
        partitions = answered.setdefault(topic.name, {})
        for wanted in topic.partitions:
            # A partition that was named twice is refused once, as in Kafka.
            if wanted.partition_index not in partitions:
                partitions[wanted.partition_index] = lister.answer(topic.name, wanted)
    topics = [(name, tuple(partitions.values())) for name, partitions in answered.items()]
    context.reply_parts((encode_list_offsets_response(context.version, topics),))


class _Lister:
    """One ListOffsets request: what holds for all its partitions."""

    def __init__(
        self,
        broker: Broker,
        context: RequestContext,
        request: Message,
        named_twice: set[tuple[str, int]],
    ) -> None:
        self.broker = broker
        self.context = context
        self.isolation_level = request.isolation_level
        self.is_consumer = request.replica_id == CONSUMER
        self.named_twice = named_twice

    def answer(self, topic: str, wanted: Message) -> OffsetReply:
        try:
            return (wanted.partition_index, ErrorCode.NONE, *self._find(topic, wanted))
        except KafkaError as error:
            self.context.failed(error.code)
            return (wanted.partition_index, error.code, *NOT_FOUND)

    def _find(self, topic: str, wanted: Message) -> Found:
        if self.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
            # What Kafka says of an enum that it cannot read.
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        if (topic, wanted.partition_index) in self.named_twice:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if wanted.timestamp < 0 and not self._is_known(wanted.timestamp):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        partition = self.broker.replicas.find(topic, wanted.partition_index)
        partition.check_leader(wanted.current_leader_epoch)
        try:
            return find_offset(partition, wanted.timestamp, self._end(partition))
        except StorageError as error:
            partition.on_storage_error(partition, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def _is_known(self, timestamp: int) -> bool:
        since = _FROM_VERSION.get(timestamp)
        return since is not None and self.context.version >= since

    def _end(self, partition: Partition) -> int:
        """The end of what the asker may read."""
        if not self.is_consumer:
            return partition.log.log_end_offset
        if self.isolation_level == READ_COMMITTED:
            return partition.last_stable_offset
        return partition.high_watermark


def find_offset(partition: Partition, timestamp: int, end: int) -> Found:
    """The offset that a timestamp, or the number of a named position, stands for."""
    log = partition.log
    found: Found | None = None
    match timestamp:
        case Position.LATEST:
            return (UNKNOWN_TIMESTAMP, end, partition.leader_epoch)
        case Position.EARLIEST | Position.EARLIEST_LOCAL:
            start = log.log_start_offset
            return (UNKNOWN_TIMESTAMP, start, log.leader_epochs.epoch_for(start))
        case Position.LATEST_TIERED | Position.EARLIEST_PENDING_UPLOAD:
            return NOT_FOUND
        case Position.MAX_TIMESTAMP:
            # As in Kafka this may be a record below the log start, while its segment is there.
            found = log.max_timestamp()
        case _:
            found = log.offset_for_timestamp(timestamp)
    if found is None or found[1] >= end:
        return NOT_FOUND
    return found


def handle_offset_for_leader_epoch(
    broker: Broker, context: RequestContext, request: Message
) -> Mapping[str, Any]:
    return {
        "topics": [
            {
                "topic": topic.topic,
                "partitions": [
                    _end_of_epoch(broker, context, topic.topic, wanted)
                    for wanted in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }


def _end_of_epoch(
    broker: Broker, context: RequestContext, topic: str, wanted: Message
) -> Mapping[str, Any]:
    error = ErrorCode.NONE
    leader_epoch, end_offset = UNKNOWN_EPOCH, UNKNOWN_OFFSET
    try:
        partition = broker.replicas.find(topic, wanted.partition)
        partition.check_leader(wanted.current_leader_epoch)
        leader_epoch, end_offset = partition.log.leader_epochs.end_offset_for(
            wanted.leader_epoch, partition.log.log_end_offset
        )
    except KafkaError as refused:
        error = refused.code
        context.failed(error)
    return {
        "error_code": error,
        "partition": wanted.partition,
        "leader_epoch": leader_epoch,
        "end_offset": end_offset,
    }
