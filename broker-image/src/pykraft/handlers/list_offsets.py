"""ListOffsets, v1 to v11, and OffsetForLeaderEpoch, v2 to v4.

Behaviour: by timestamp, and the named positions: latest (-1; the last stable offset for
read_committed), earliest (-2), max timestamp (-3, v7), earliest local (-4, v8; all is local here),
latest tiered (-5, v9) and earliest pending upload (-6, v11), which are unknown (-1) as in Kafka
without tiering. A timestamp that the version does not know is refused with UNSUPPORTED_VERSION, a
partition named twice with INVALID_REQUEST. What must be looked for in the records, a time or the
latest of them, a worker looks for.
Absent: reading from remote storage, hence the time-out of v10 is never reached.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, NamedTuple

from pykraft.core.log.time_search import FoundOffset, TimeSearch
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

# Partitions that one job of a worker looks through.
LOOK_UPS_AT_ONCE = 64

# timestamp, offset, leader epoch
Found = tuple[int, int, int]
NOT_FOUND: Found = (UNKNOWN_TIMESTAMP, UNKNOWN_OFFSET, UNKNOWN_EPOCH)


def handle_list_offsets(broker: Broker, context: RequestContext, request: Message) -> None:
    lister = _Lister(broker, context, request)
    for topic in request.topics:
        for wanted in topic.partitions:
            lister.answer(topic.name, wanted)
    lister.go_on()


class _LookUp(NamedTuple):
    """A time that is to be looked for in the records of a partition."""

    topic: str
    wanted: Message
    from_offset: int


class _Lister:
    """One ListOffsets from request to answer."""

    def __init__(self, broker: Broker, context: RequestContext, request: Message) -> None:
        self.broker = broker
        self.context = context
        self.isolation_level = request.isolation_level
        self.is_consumer = request.replica_id == CONSUMER
        named = Counter((t.name, p.partition_index) for t in request.topics for p in t.partitions)
        self.named_twice = {key for key, times in named.items() if times > 1}
        self.answers: dict[str, dict[int, OffsetReply]] = {}
        self.look_ups: deque[_LookUp] = deque()

    def answer(self, topic: str, wanted: Message) -> None:
        """Now; or later, and then its place is kept."""
        answers = self.answers.setdefault(topic, {})
        index = wanted.partition_index
        if index in answers:
            return  # A partition that was named twice is refused once, as in Kafka.
        try:
            self._check(topic, wanted)
            partition = self._partition(topic, wanted)
            if wanted.timestamp == Position.MAX_TIMESTAMP or wanted.timestamp >= 0:
                self.look_ups.append(_LookUp(topic, wanted, 0))
            answers[index] = (index, ErrorCode.NONE, *self._known(partition, wanted.timestamp))
        except KafkaError as error:
            self._refuse(topic, index, error)

    def _check(self, topic: str, wanted: Message) -> None:
        if self.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
            # What Kafka says of an enum that it cannot read.
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        if (topic, wanted.partition_index) in self.named_twice:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if wanted.timestamp < 0:
            since = _FROM_VERSION.get(wanted.timestamp)
            if since is None or self.context.version < since:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)

    def _partition(self, topic: str, wanted: Message) -> Partition:
        partition = self.broker.replicas.find(topic, wanted.partition_index)
        partition.check_leader(wanted.current_leader_epoch)
        return partition

    def _known(self, partition: Partition, timestamp: int) -> Found:
        """What a named position stands for, where no record must be looked at."""
        log = partition.log
        match timestamp:
            case Position.LATEST:
                return (UNKNOWN_TIMESTAMP, self._end(partition), partition.leader_epoch)
            case Position.EARLIEST | Position.EARLIEST_LOCAL:
                start = log.log_start_offset
                return (UNKNOWN_TIMESTAMP, start, log.leader_epochs.epoch_for(start))
            case _:
                return NOT_FOUND

    def _end(self, partition: Partition) -> int:
        """The end of what the asker may read."""
        if not self.is_consumer:
            return partition.log.log_end_offset
        if self.isolation_level == READ_COMMITTED:
            return partition.last_stable_offset
        return partition.high_watermark

    def _refuse(self, topic: str, index: int, error: KafkaError) -> None:
        self.context.failed(error.code)
        self.answers[topic][index] = (index, error.code, *NOT_FOUND)

    # Looking at records: some partitions at a time, because each holds a file open.

    def go_on(self) -> None:
        begun: list[tuple[_LookUp, TimeSearch]] = []
        while self.look_ups and len(begun) < LOOK_UPS_AT_ONCE:
            look_up = self.look_ups.popleft()
            search = self._begin(look_up)
            if search is not None:
                begun.append((look_up, search))
        if not begun:
            topics = [(topic, tuple(found.values())) for topic, found in self.answers.items()]
            self.context.reply_parts((encode_list_offsets_response(self.context.version, topics),))
            return

        def done(results: list[FoundOffset | StorageError | KafkaError | None]) -> None:
            for (look_up, search), result in zip(begun, results, strict=True):
                self._end_one(look_up, search, result)
            self.go_on()

        def failed(error: BaseException) -> None:
            raise error

        self.broker.world.in_worker(lambda: [_run(search) for _, search in begun], done, failed)

    def _begin(self, look_up: _LookUp) -> TimeSearch | None:
        """None when there is nothing to look through, or no partition any more."""
        topic, wanted, from_offset = look_up
        try:
            partition = self._partition(topic, wanted)
            with _storage_errors(partition):
                if wanted.timestamp == Position.MAX_TIMESTAMP:
                    # As in Kafka it may be below the log start, while its segment is there.
                    return partition.log.search_latest() if from_offset == 0 else None
                return partition.log.search_time(wanted.timestamp, from_offset)
        except KafkaError as error:
            self._refuse(topic, wanted.partition_index, error)
            return None

    def _end_one(
        self,
        look_up: _LookUp,
        search: TimeSearch,
        result: FoundOffset | StorageError | KafkaError | None,
    ) -> None:
        topic, wanted, _ = look_up
        if result is None:
            self.look_ups.append(_LookUp(topic, wanted, search.next_offset))
            return
        try:
            partition = self._partition(topic, wanted)
            with _storage_errors(partition):
                if isinstance(result, Exception):
                    raise result
            if result.offset < self._end(partition):
                index = wanted.partition_index
                self.answers[topic][index] = (index, ErrorCode.NONE, *result)
        except KafkaError as error:
            self._refuse(topic, wanted.partition_index, error)


def _run(search: TimeSearch) -> FoundOffset | StorageError | KafkaError | None:
    """In a worker. One that fails says nothing of the others."""
    try:
        return search.run()
    except (StorageError, KafkaError) as error:
        return error


@contextmanager
def _storage_errors(partition: Partition) -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        partition.on_storage_error(partition, error)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error


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
