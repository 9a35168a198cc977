"""Produce, v3 to v13.

Behaviour: acks 0, 1 and -1; one batch of format v2 per partition; the leader stamps base offset and
epoch; the client's compression stays unless the topic asks for another, and then a worker does it.
A worker also looks at the records of a batch one by one, where that must be and they are many.
v13 names topics by id. Of a partition that is named twice the last entry counts, and it is answered
once. An answer with acks=all waits for the high watermark, or for the time-out.
zstd is for clients that ask with v7 or newer.
Absent: transactions (a transactional id is refused until there is a coordinator).
"""

from collections.abc import Callable
from typing import NamedTuple

from pykraft.core.log.config import LONG_MAX
from pykraft.core.log.partition_log import PartitionLog
from pykraft.core.log.refusals import RefusedBatchError
from pykraft.core.log.validation import RecordsUncheckedError, check_records, unreadable
from pykraft.core.replication.partition import Partition
from pykraft.core.replication.replicas import TopicKey, unknown
from pykraft.handlers.acknowledgement import Append, CommitWait, FlushWait
from pykraft.handlers.context import Broker, RequestContext
from pykraft.protocol.errors import ErrorCode, KafkaError
from pykraft.protocol.hot_requests import ProduceRequest, decode_produce
from pykraft.protocol.hot_responses import ProducePartitionReply as Reply
from pykraft.protocol.hot_responses import encode_produce_response
from pykraft.records.batch import ATTRIBUTES_AT, CODEC_MASK, HEADER_BYTES
from pykraft.records.compression import ZSTD, CorruptRecordsError, recompress

TopicReplies = tuple[str | None, bytes | None, list[Reply]]

ACKS_ALL = -1
VALID_ACKS = (0, 1, ACKS_ALL)
ZSTD_FROM_VERSION = 7
# In the place of what a worker has to see first.
UNDECIDED = Reply(-1, ErrorCode.UNKNOWN_SERVER_ERROR, -1, -1, -1)


def handle_produce(broker: Broker, context: RequestContext, frame: memoryview, offset: int) -> None:
    request = decode_produce(context.version, frame, offset)
    topics = request.topics
    if len(topics) > 1 or (topics and len(topics[0][2]) > 1):
        _keep_last_named(request)
    produce = Produce(broker, context, request.acks, request.timeout_ms)
    if request.transactional_id is not None:
        produce.refuse_all(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    elif request.acks not in VALID_ACKS:
        produce.refuse_known(request, ErrorCode.INVALID_REQUIRED_ACKS)
    else:
        produce.append_all(request)


def _keep_last_named(request: ProduceRequest) -> None:
    """A map, as in Kafka: of a partition that is named twice the last entry counts."""
    topics = request.topics
    keys = {name if topic_id is None else topic_id for name, topic_id, _ in topics}
    if len(keys) == len(topics) and all(len(dict(p)) == len(p) for _, _, p in topics):
        return
    merged: dict[tuple[str | None, bytes | None], dict[int, memoryview | None]] = {}
    for name, topic_id, partitions in topics:
        merged.setdefault((name, topic_id), {}).update(partitions)
    request.topics = [(*key, list(partitions.items())) for key, partitions in merged.items()]


class _Slow(NamedTuple):
    """A batch that a worker must see first."""

    partition: Partition
    records: memoryview
    replies: list[Reply]
    at: int
    # For the worker: what is to be appended. Raises KafkaError.
    prepare: Callable[[], memoryview]
    checked: bool


class Produce:
    """One Produce from request to answer. Of the request's bytes it keeps nothing that is not a
    copy, because their buffer is used again while it waits."""

    __slots__ = (
        "acks",
        "broker",
        "context",
        "failed",
        "now_ms",
        "slow",
        "takes_zstd",
        "timeout_ms",
        "topics",
        "uncommitted",
        "unflushed",
    )

    def __init__(self, broker: Broker, context: RequestContext, acks: int, timeout_ms: int) -> None:
        self.broker = broker
        self.context = context
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.takes_zstd = context.version >= ZSTD_FROM_VERSION
        self.now_ms = broker.world.now_ms()
        self.topics: list[TopicReplies] = []
        self.failed = False
        self.slow: list[_Slow] = []
        self.unflushed: list[Append] = []
        self.uncommitted: list[Append] = []

    # Refusing what need not be looked at

    def refuse_all(self, request: ProduceRequest, code: ErrorCode) -> None:
        for name, topic_id, partitions in request.topics:
            replies = [self._refused(index, code) for index, _ in partitions]
            self.topics.append((name, topic_id, replies))
        self._answer()

    def refuse_known(self, request: ProduceRequest, code: ErrorCode) -> None:
        """What does not exist is told as such, as in Kafka."""
        for name, topic_id, partitions in request.topics:
            topic: TopicKey = topic_id if topic_id is not None else name  # type: ignore[assignment]
            hosted = self.broker.replicas.of_topic(topic)
            replies = [
                self._refused(i, code if hosted and i in hosted else unknown(topic, hosted))
                for i, _ in partitions
            ]
            self.topics.append((name, topic_id, replies))
        self._answer()

    # Appending

    def append_all(self, request: ProduceRequest) -> None:
        broker = self.broker
        append = self._append
        for name, topic_id, partitions in request.topics:
            replies: list[Reply] = []
            self.topics.append((name, topic_id, replies))
            topic: TopicKey = topic_id if topic_id is not None else name  # type: ignore[assignment]
            hosted = broker.replicas.of_topic(topic)
            for at, (index, records) in enumerate(partitions):
                partition = hosted.get(index) if hosted is not None else None
                if partition is None:
                    replies.append(self._refused(index, unknown(topic, hosted)))
                else:
                    replies.append(append(partition, records, replies, at))
        self._go_on()

    def _append(
        self,
        partition: Partition,
        records: memoryview | None,
        replies: list[Reply],
        at: int,
        *,
        prepared: bool = False,
        checked: bool = False,
    ) -> Reply:
        log = partition.log
        counters = self.broker.counters.topic(partition.topic)
        if not prepared:
            counters.produce_requests += 1
        try:
            if self.acks == ACKS_ALL and len(partition.isr) < log.config.min_insync_replicas:
                _check_replicas(partition)
            if records is None:
                raise KafkaError(ErrorCode.INVALID_RECORD)
            if not self.takes_zstd:
                _refuse_zstd(records)
            if log.recompresses and not prepared and _is_to_be_recompressed(log, records):
                self._recompress_first(partition, records, replies, at)
                return UNDECIDED
            appended = partition.append(records, self.now_ms, checked)
        except KafkaError as error:
            return self._refused_by(partition, records, error)
        except RecordsUncheckedError:
            assert records is not None
            self._check_first(partition, records, replies, at)
            return UNDECIDED
        counters.bytes_in += len(records)
        if not appended[4]:
            counters.messages_in += appended[1] - appended[0] + 1
        if self.acks == ACKS_ALL and partition.high_watermark <= appended[1]:
            self.uncommitted.append(Append(partition, appended[1] + 1, replies, at))
        if log.config.flush_messages != LONG_MAX and log.needs_flush(self.now_ms):
            self.unflushed.append(Append(partition, appended[1] + 1, replies, at))
        return Reply(partition.index, 0, appended[0], appended[2], appended[3])

    # What takes long is done by a worker, one job for all such batches of a request.

    def _recompress_first(
        self, partition: Partition, records: memoryview, replies: list[Reply], at: int
    ) -> None:
        config, copied = partition.log.config, memoryview(bytes(records))

        def prepare() -> memoryview:
            try:
                return memoryview(recompress(copied, config))
            except CorruptRecordsError as error:
                raise unreadable(error) from error

        self.slow.append(_Slow(partition, copied, replies, at, prepare, False))

    def _check_first(
        self, partition: Partition, records: memoryview, replies: list[Reply], at: int
    ) -> None:
        log, copied, now_ms = partition.log, memoryview(bytes(records)), self.now_ms
        config = log.config

        def prepare() -> memoryview:
            check_records(copied, config, now_ms, log.name)
            return copied

        self.slow.append(_Slow(partition, copied, replies, at, prepare, True))

    def _prepare_slow(self) -> None:
        slow, self.slow = self.slow, []

        def done(prepared: list[memoryview | KafkaError]) -> None:
            self.now_ms = self.broker.world.now_ms()
            for item, result in zip(slow, prepared, strict=True):
                if isinstance(result, KafkaError):
                    reply = self._refused_by(item.partition, item.records, result)
                else:
                    reply = self._append(
                        item.partition,
                        result,
                        item.replies,
                        item.at,
                        prepared=True,
                        checked=item.checked,
                    )
                item.replies[item.at] = reply
            self._go_on()

        def failed(error: BaseException) -> None:
            raise error

        self.broker.world.in_worker(lambda: [_prepared(item) for item in slow], done, failed)

    # Answering

    def _go_on(self) -> None:
        if self.slow:
            self._prepare_slow()
        elif self.unflushed:
            # flush.messages counts before the answer, as in Kafka.
            FlushWait(self.broker, self.unflushed, self._fail, self._commit)
        elif self.uncommitted:
            self._commit()
        else:
            self._answer()

    def _commit(self) -> None:
        waiting = [a for a in self.uncommitted if a.replies[a.at].error == ErrorCode.NONE]
        if waiting:
            CommitWait(self.broker, waiting, self.timeout_ms, self._fail, self._answer)
        else:
            self._answer()

    def _fail(self, code: int) -> None:
        self.failed = True
        self.context.failed(code)

    def _refused(self, index: int, code: ErrorCode) -> Reply:
        self._fail(code)
        return Reply(index, code, -1, -1, -1)

    def _refused_by(
        self, partition: Partition, records: memoryview | None, error: KafkaError
    ) -> Reply:
        self._fail(error.code)
        counters = self.broker.counters.topic(partition.topic)
        counters.failed_produce += 1
        if error.code == ErrorCode.MESSAGE_TOO_LARGE and records is not None:
            counters.bytes_rejected += len(records)
        leader = None
        if error.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
            leader = (partition.leader, partition.leader_epoch)
        if not isinstance(error, RefusedBatchError):
            return Reply(partition.index, error.code, -1, -1, -1, None, leader)
        start = partition.log.log_start_offset if error.tells_log_start else -1
        why = error.message if error.tells_reason else None
        return Reply(partition.index, error.code, -1, -1, start, why, leader, error.record_errors)

    def _answer(self) -> None:
        context = self.context
        if self.acks != 0:
            context.reply_parts((encode_produce_response(context.version, self.topics),))
        elif self.failed:
            # No answer is due; a client that must learn of an error learns it by this.
            context.disconnect()
        else:
            context.drop()


def _check_replicas(partition: Partition) -> None:
    """As Kafka: whether we lead at all comes first, and no more can be in sync than there are."""
    partition.check_leader()
    if len(partition.isr) < len(partition.replicas):
        raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)


def _refuse_zstd(records: memoryview) -> None:
    if len(records) >= HEADER_BYTES and records[ATTRIBUTES_AT + 1] & CODEC_MASK == ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


def _is_to_be_recompressed(log: PartitionLog, records: memoryview) -> bool:
    """Not what is too large as it came, which the log refuses."""
    return len(records) <= log.config.max_message_bytes and log.needs_recompression(records)


def _prepared(item: _Slow) -> memoryview | KafkaError:
    """One that is refused says nothing of the others."""
    try:
        return item.prepare()
    except KafkaError as error:
        return error
