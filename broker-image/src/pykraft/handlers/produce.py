"""Produce, v3 to v13.

Behaviour: acks 0, 1 and -1; one batch of format v2 per partition; the leader stamps base offset and
epoch; the client's compression stays unless the topic asks for another, and then a worker does it.
v13 names topics by id. An answer with acks=all waits for the high watermark, or for the time-out.
zstd is for clients that ask with v7 or newer.
Absent: transactions (a transactional id is refused until there is a coordinator).
"""

from collections.abc import Callable, Mapping

from pykraft.core.log.config import LONG_MAX
from pykraft.core.log.partition_log import Appended
from pykraft.core.log.refusals import RefusedBatchError
from pykraft.core.log.validation import unreadable
from pykraft.core.replication.partition import Partition
from pykraft.core.storage import StorageError
from pykraft.handlers.context import Broker, RequestContext
from pykraft.protocol.errors import ErrorCode, KafkaError
from pykraft.protocol.hot_requests import ProduceRequest, decode_produce
from pykraft.protocol.hot_responses import ProducePartitionReply as Reply
from pykraft.protocol.hot_responses import encode_produce_response
from pykraft.records.batch import ATTRIBUTES_AT, CODEC_MASK, HEADER_BYTES
from pykraft.records.compression import ZSTD, CorruptRecordsError, recompress

TopicReplies = tuple[str | None, bytes | None, list[Reply]]
# What is refused before it comes to a log; its records have become null.
Refusals = Mapping[Partition, KafkaError]

ACKS_ALL = -1
VALID_ACKS = (0, 1, ACKS_ALL)
ZSTD_FROM_VERSION = 7
NO_REFUSALS: Refusals = {}


def handle_produce(broker: Broker, context: RequestContext, frame: memoryview, offset: int) -> None:
    request = decode_produce(context.version, frame, offset)
    if request.acks not in VALID_ACKS:
        _refuse_all(context, request, ErrorCode.INVALID_REQUIRED_ACKS)
        return
    if request.transactional_id is not None:
        _refuse_all(context, request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return
    refused = NO_REFUSALS
    if context.version < ZSTD_FROM_VERSION:
        refused = _refuse_zstd(broker, request)
    if _recompress_first(broker, context, request, refused):
        return
    _append_all(broker, context, request, refused)


def _append_all(
    broker: Broker, context: RequestContext, request: ProduceRequest, refused: Refusals
) -> None:
    now_ms = broker.world.now_ms()
    acks_all = request.acks == ACKS_ALL
    uncommitted: list[tuple[Partition, int, list[Reply], int]] = []
    unflushed: list[Partition] = []
    failed = False
    topics: list[TopicReplies] = []
    for name, topic_id, partitions in request.topics:
        replies: list[Reply] = []
        topics.append((name, topic_id, replies))
        if topic_id is None:
            hosted = broker.replicas.by_name.get(name)  # type: ignore[arg-type]
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            hosted = broker.replicas.by_id.get(topic_id)
            unknown = ErrorCode.UNKNOWN_TOPIC_ID
        for index, records in partitions:
            partition = hosted.get(index) if hosted is not None else None
            if partition is None:
                if hosted is not None:
                    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                replies.append(Reply(index, unknown, -1, -1, -1))
                context.failed(unknown)
                failed = True
                continue
            try:
                if acks_all and len(partition.isr) < partition.log.config.min_insync_replicas:
                    _check_replicas(partition)
                if records is None:
                    raise refused.get(partition) or KafkaError(ErrorCode.INVALID_RECORD)
                appended = partition.append(records, now_ms)
            except KafkaError as error:
                replies.append(_refused(broker, partition, error))
                context.failed(error.code)
                failed = True
                continue
            _count(broker, partition.topic, records, appended)
            replies.append(Reply(index, 0, appended[0], appended[2], appended[3]))
            if acks_all and partition.high_watermark <= appended[1]:
                uncommitted.append((partition, appended[1] + 1, replies, len(replies) - 1))
            if partition.log.config.flush_messages != LONG_MAX:
                unflushed.append(partition)

    def finish() -> None:
        if uncommitted:
            _Waiting(broker, context, request, topics, uncommitted)
        else:
            _answer(context, request.acks, topics, failed)

    if unflushed:
        _flush_first(broker, context, request, unflushed, finish)
    else:
        finish()


def _check_replicas(partition: Partition) -> None:
    """As Kafka: whether we lead at all comes first, and no more can be in sync than there are."""
    partition.check_leader()
    if len(partition.isr) < len(partition.replicas):
        raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)


def _flush_first(
    broker: Broker,
    context: RequestContext,
    request: ProduceRequest,
    partitions: list[Partition],
    finish: Callable[[], None],
) -> None:
    """flush.messages counts before the answer, as in Kafka: what it covers is on the disk first."""
    now_ms = broker.world.now_ms()
    due = [
        (p, flush)
        for p in partitions
        if p.log.needs_flush(now_ms) and (flush := p.log.begin_flush())
    ]
    if not due:
        finish()
        return

    def work() -> None:
        for _, flush in due:
            flush.run()

    def done(_: None) -> None:
        for partition, flush in due:
            partition.log.finish_flush(flush, now_ms)
        finish()

    def failed(error: BaseException) -> None:
        if not isinstance(error, StorageError):
            raise error
        for partition, _ in due:
            partition.on_storage_error(partition, error)
        _refuse_all(context, request, ErrorCode.KAFKA_STORAGE_ERROR)

    broker.world.in_worker(work, done, failed)


def _count(broker: Broker, topic: str, records: memoryview, appended: Appended) -> None:
    counters = broker.counters.topic(topic)
    counters.bytes_in += len(records)
    counters.produce_requests += 1
    if not appended.duplicate:
        counters.messages_in += appended[1] - appended[0] + 1


def _refused(broker: Broker, partition: Partition, error: KafkaError) -> Reply:
    broker.counters.topic(partition.topic).failed_produce += 1
    leader = None
    if error.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
        leader = (partition.leader, partition.leader_epoch)
    if not isinstance(error, RefusedBatchError):
        return Reply(partition.index, error.code, -1, -1, -1, None, leader)
    start = partition.log.log_start_offset if error.tells_log_start else -1
    reason = error.message if error.tells_reason else None
    return Reply(partition.index, error.code, -1, -1, start, reason, leader, error.record_errors)


def _answer(context: RequestContext, acks: int, topics: list[TopicReplies], failed: bool) -> None:
    if acks == 0:
        # No answer is due; a client that must learn of an error learns it by losing the connection.
        if failed:
            context.disconnect()
        else:
            context.drop()
        return
    context.reply_parts((encode_produce_response(context.version, topics),))


def _refuse_all(context: RequestContext, request: ProduceRequest, code: ErrorCode) -> None:
    context.failed(code)
    topics: list[TopicReplies] = [
        (name, topic_id, [Reply(index, code, -1, -1, -1) for index, _ in partitions])
        for name, topic_id, partitions in request.topics
    ]
    _answer(context, request.acks, topics, True)


class _Waiting:
    """Appends of one request that wait for the high watermark, or for the client's time-out."""

    __slots__ = ("broker", "context", "left", "request", "timer", "topics", "uncommitted")

    def __init__(
        self,
        broker: Broker,
        context: RequestContext,
        request: ProduceRequest,
        topics: list[TopicReplies],
        uncommitted: list[tuple[Partition, int, list[Reply], int]],
    ) -> None:
        self.broker = broker
        self.context = context
        self.request = request
        self.topics = topics
        self.left = len(uncommitted)
        self.uncommitted = uncommitted
        broker.counters.node.produce_purgatory += 1
        self.timer = broker.world.call_later(request.timeout_ms, self._time_out)
        for item in uncommitted:
            item[0].when_committed(item[1], self._settled(item))

    def _settled(self, item: tuple[Partition, int, list[Reply], int]) -> Callable[[int], None]:
        def settle(code: int) -> None:
            if self.left == 0:
                return
            if code != ErrorCode.NONE:
                self._fail(item, code)
            self.left -= 1
            if self.left == 0:
                self._finish()

        return settle

    def _fail(self, item: tuple[Partition, int, list[Reply], int], code: int) -> None:
        partition, _, replies, at = item
        replies[at] = Reply(partition.index, code, -1, -1, -1)
        self.context.failed(code)

    def _time_out(self) -> None:
        self.broker.counters.node.produce_expired += 1
        for item in self.uncommitted:
            if not item[0].is_committed(item[1]):
                self._fail(item, ErrorCode.REQUEST_TIMED_OUT)
        self.left = 0
        self._finish()

    def _finish(self) -> None:
        self.timer.cancel()
        self.broker.counters.node.produce_purgatory -= 1
        _answer(self.context, self.request.acks, self.topics, False)


def _refuse_zstd(broker: Broker, request: ProduceRequest) -> Refusals:
    refused: dict[Partition, KafkaError] = {}
    for name, _, partitions in request.topics:
        hosted = broker.replicas.by_name.get(name, {})  # type: ignore[arg-type]
        for at, (index, records) in enumerate(partitions):
            if records is None or index not in hosted or len(records) < HEADER_BYTES:
                continue
            if records[ATTRIBUTES_AT + 1] & CODEC_MASK == ZSTD:
                refused[hosted[index]] = KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
                partitions[at] = (index, None)
    return refused


def _recompress_first(
    broker: Broker, context: RequestContext, request: ProduceRequest, refused: Refusals
) -> bool:
    """Hand batches that the topic wants in another codec to a worker. True when that was needed."""
    wanted = []
    for name, topic_id, partitions in request.topics:
        hosted = (
            broker.replicas.by_id.get(topic_id)
            if topic_id is not None
            else broker.replicas.by_name.get(name)  # type: ignore[arg-type]
        )
        if hosted is None:
            continue
        for at, (index, records) in enumerate(partitions):
            partition = hosted.get(index)
            if partition is None or records is None or not partition.log.recompresses:
                continue
            if partition.log.needs_recompression(records):
                wanted.append((partitions, at, partition, partition.log.config))
    if not wanted:
        return False
    # The frame's buffer is used again for the next request: what outlives this call is copied.
    for _, _, partitions in request.topics:
        for at, (index, records) in enumerate(partitions):
            if records is not None:
                partitions[at] = (index, memoryview(bytes(records)))

    def work() -> Refusals:
        unreadables = {}
        for partitions, at, partition, config in wanted:
            index, records = partitions[at]
            assert records is not None
            try:
                partitions[at] = (index, memoryview(recompress(records, config)))
            except CorruptRecordsError as error:
                unreadables[partition] = unreadable(error)
                partitions[at] = (index, None)
        return unreadables

    def done(unreadables: Refusals) -> None:
        _append_all(broker, context, request, {**refused, **unreadables})

    def failed(error: BaseException) -> None:
        raise error

    broker.world.in_worker(work, done, failed)
    return True
