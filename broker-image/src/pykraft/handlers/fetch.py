"""Fetch, v4 to v18.

Behaviour: sessions from v7 (KIP-227), topic ids from v13; waits for min_bytes up to max_wait; the
first batch is sent whole however small the limits are; records go from the file to the socket.
Followers' fields (replica state, directory id, diverging epochs) are read; a consumer's
last_fetched_epoch is answered with the diverging epoch as Kafka does.
Absent: followers (they come with replication); aborted transactions (with transactions).
"""

from collections.abc import Iterable

from pykraft.core.log.partition_log import FileSlice
from pykraft.core.replication.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    PartitionKey,
    SessionPartition,
)
from pykraft.core.replication.partition import Partition
from pykraft.core.replication.replicas import TopicKey
from pykraft.core.storage import StorageError
from pykraft.handlers.context import Broker, Part, RequestContext, Timer
from pykraft.protocol.errors import ErrorCode, KafkaError
from pykraft.protocol.hot_requests import FetchRequest, decode_fetch
from pykraft.protocol.hot_responses import FetchPartitionReply, encode_fetch_response

READ_COMMITTED = 1
SESSIONS_FROM_VERSION = 7
TOPIC_IDS_FROM_VERSION = 13
NO_EPOCH = -1

Wanted = Iterable[tuple[PartitionKey, SessionPartition]]


def handle_fetch(broker: Broker, context: RequestContext, frame: memoryview, offset: int) -> None:
    request = decode_fetch(context.version, frame, offset)
    fetch = Fetch(broker, context, request)
    try:
        fetch.open_session()
    except KafkaError as error:
        context.failed(error.code)
        pieces = encode_fetch_response(context.version, error.code, NO_SESSION, [])
        context.reply_parts(pieces)
        return
    fetch.read()
    if fetch.is_satisfied():
        fetch.answer()
    else:
        fetch.wait()


class Fetch:
    """One Fetch from request to answer; while it waits it is the long poll of its partitions."""

    __slots__ = (
        "available",
        "broker",
        "context",
        "found_one",
        "full",
        "has_news",
        "max_bytes",
        "min_bytes",
        "replies",
        "request",
        "session",
        "timer",
        "uses_ids",
        "waiting_on",
        "wanted",
    )

    def __init__(self, broker: Broker, context: RequestContext, request: FetchRequest) -> None:
        self.broker = broker
        self.context = context
        self.request = request
        self.uses_ids = context.version >= TOPIC_IDS_FROM_VERSION
        self.max_bytes = min(request.max_bytes, broker.settings.fetch_max_bytes)
        # A client that asks for more than it can be given must not wait for ever.
        self.min_bytes = min(request.min_bytes, self.max_bytes)
        self.session: FetchSession | None = None
        self.full = True
        self.wanted: Wanted = ()
        self.waiting_on: list[Partition] = []
        self.timer: Timer | None = None

    # The session decides which partitions are wanted.

    def open_session(self) -> None:
        request, sessions = self.request, self.broker.sessions
        # A map, as in Kafka: of a partition that is named twice the last entry counts.
        named = dict(self._named())
        if self.context.version < SESSIONS_FROM_VERSION or request.session_epoch == FINAL_EPOCH:
            sessions.close(request.session_id)
            self.wanted = named.items()
            return
        now_ms = self.broker.world.now_ms()
        if request.session_epoch == INITIAL_EPOCH:
            sessions.close(request.session_id)
            self.wanted = named.items()
            # As in Kafka also without partitions: they may be named by what follows.
            self.session = sessions.open(named, uses_ids=self.uses_ids, now_ms=now_ms)
            self.broker.counters.node.sessions_expired = sessions.evictions
            if self.session is not None:
                self.wanted = self.session.partitions.items()
            return
        session = sessions.resume(
            request.session_id, request.session_epoch, uses_ids=self.uses_ids, now_ms=now_ms
        )
        sessions.update(session, named, self._forgotten())
        self.wanted = session.partitions.items()
        self.full = False
        if session.partitions:
            self.session = session
        else:
            # A session without partitions is over; the answer says so with session id 0.
            sessions.close(session.id)

    def _named(self) -> Wanted:
        for name, topic_id, partitions in self.request.topics:
            topic: TopicKey = topic_id if topic_id is not None else name  # type: ignore[assignment]
            for item in partitions:
                yield (
                    (topic, item.partition),
                    SessionPartition(
                        item.fetch_offset,
                        item.partition_max_bytes,
                        # Kafka takes every negative number for none, in this API alone.
                        max(item.current_leader_epoch, NO_EPOCH),
                        max(item.last_fetched_epoch, NO_EPOCH),
                    ),
                )

    def _forgotten(self) -> Iterable[PartitionKey]:
        for name, topic_id, indexes in self.request.forgotten:
            topic: TopicKey = topic_id if topic_id is not None else name  # type: ignore[assignment]
            for index in indexes:
                yield (topic, index)

    # Reading finds stretches of files; nothing is copied.

    def read(self) -> None:
        self.replies: list[tuple[PartitionKey, FetchPartitionReply, FileSlice | None]] = []
        self.available = 0
        self.has_news = False
        self.found_one = False
        left = self.max_bytes
        for key, state in list(self.wanted):
            reply, found = self._read_one(key, state, left)
            if found is not None:
                left -= found.size
                self.available += found.size
            self.replies.append((key, reply, found))

    def _read_one(
        self, key: PartitionKey, state: SessionPartition, left: int
    ) -> tuple[FetchPartitionReply, FileSlice | None]:
        try:
            partition = self.broker.replicas.find(*key)
        except KafkaError as error:
            # Of what it does not host Kafka says that no transaction was aborted.
            return self._refused(key[1], error.code)._replace(aborted=[]), None
        self.found_one = True
        try:
            partition.check_leader(state.current_leader_epoch)
            diverging = self._diverging(partition, state)
            found = None if diverging else self._slice(partition, state, left)
        except KafkaError as error:
            self.has_news = True
            return self._refused(key[1], error.code), None
        except StorageError as error:
            self.has_news = True
            partition.on_storage_error(partition, error)
            return self._refused(key[1], ErrorCode.KAFKA_STORAGE_ERROR), None
        if diverging:
            self.has_news = True
        committed = self.request.isolation_level == READ_COMMITTED
        return FetchPartitionReply(
            index=key[1],
            error=0,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log.log_start_offset,
            aborted=[] if committed else None,
            records_size=found.size if found is not None else 0,
            diverging=diverging,
        ), found

    def _slice(self, partition: Partition, state: SessionPartition, left: int) -> FileSlice | None:
        committed = self.request.isolation_level == READ_COMMITTED
        end = partition.last_stable_offset if committed else partition.high_watermark
        if state.fetch_offset == end:
            return None
        at_least_one = self.available == 0
        if left <= 0 and not at_least_one:
            # Out of bytes, but a bad offset must still be told.
            partition.log.check_offset(state.fetch_offset)
            return None
        return partition.log.read(
            state.fetch_offset,
            min(left, state.max_bytes),
            end_offset=end,
            at_least_one=at_least_one,
        )

    def _diverging(self, partition: Partition, state: SessionPartition) -> tuple[int, int] | None:
        """Where the client's log left ours (KIP-595), when it says what epoch it read last."""
        if state.last_fetched_epoch == NO_EPOCH:
            return None
        epoch, end = partition.log.leader_epochs.end_offset_for(
            state.last_fetched_epoch, partition.log.log_end_offset
        )
        if end < 0:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if epoch < state.last_fetched_epoch or end < state.fetch_offset:
            return (epoch, end)
        return None

    def _refused(self, index: int, code: ErrorCode) -> FetchPartitionReply:
        return FetchPartitionReply(
            index=index,
            error=code,
            high_watermark=-1,
            last_stable_offset=-1,
            log_start_offset=-1,
            aborted=None,
            records_size=0,
        )

    # Waiting: told of bytes by the partitions, until there is enough or the time is up.

    def is_satisfied(self) -> bool:
        """As in Kafka, what cannot be found does not end the wait for what was found."""
        return (
            self.has_news
            or self.available >= self.min_bytes
            or self.request.max_wait_ms <= 0
            or not self.found_one
        )

    def wait(self) -> None:
        for key, _, _ in self.replies:
            try:
                partition = self.broker.replicas.find(*key)
            except KafkaError:
                continue
            partition.fetch_waiters.append(self)
            self.waiting_on.append(partition)
        self.broker.counters.node.fetch_purgatory += 1
        self.context.on_close = self.cancel
        self.timer = self.broker.world.call_later(self.request.max_wait_ms, self._time_is_up)

    def on_bytes(self, count: int) -> None:
        if self.timer is None:
            return  # Answered while the partition told others of the same bytes.
        self.available += count
        if self.available >= self.min_bytes:
            self.on_change()

    def _time_is_up(self) -> None:
        self.broker.counters.node.fetch_expired += 1
        self.on_change()

    def on_change(self) -> None:
        if self.timer is None:
            return
        self.cancel()
        self.read()
        self.answer()

    def cancel(self) -> None:
        """Leave the purgatory; also when the client went away."""
        if self.timer is None:
            return
        self.timer.cancel()
        self.timer = None
        self.broker.counters.node.fetch_purgatory -= 1
        for partition in self.waiting_on:
            if self in partition.fetch_waiters:
                partition.fetch_waiters.remove(self)
        self.waiting_on.clear()

    # The answer: bytes between the stretches of records.

    def answer(self) -> None:
        topics: dict[TopicKey, list[FetchPartitionReply]] = {}
        slices: dict[TopicKey, list[FileSlice]] = {}
        for key, reply, found in self.replies:
            self._count(key[0], reply)
            if not self._is_told(key, reply):
                continue
            topics.setdefault(key[0], []).append(reply)
            if found is not None:
                slices.setdefault(key[0], []).append(found)
        session_id = self.session.id if self.session is not None else NO_SESSION
        pieces = encode_fetch_response(
            self.context.version,
            0,
            session_id,
            [
                (None, topic, replies) if isinstance(topic, bytes) else (topic, None, replies)
                for topic, replies in topics.items()
            ],
        )
        parts: list[Part] = [pieces[0]]
        in_order = (part for topic in topics for part in slices.get(topic, ()))
        for piece, found in zip(pieces[1:], in_order, strict=True):
            parts.append(found)
            parts.append(piece)
        self.context.reply_parts(parts)

    def _is_told(self, key: PartitionKey, reply: FetchPartitionReply) -> bool:
        """An incremental answer leaves out partitions of which there is nothing new."""
        session = self.session
        if session is None:
            return self.full or reply.error != 0
        state = session.partitions.get(key)
        if state is None:
            return True
        news = (
            self.full
            or reply.records_size > 0
            or reply.error != 0
            or reply.diverging is not None
            or state.high_watermark != reply.high_watermark
            or state.log_start_offset != reply.log_start_offset
        )
        # After an error the next answer must be told in full.
        state.high_watermark = reply.high_watermark if reply.error == 0 else -2
        state.log_start_offset = reply.log_start_offset
        if reply.records_size > 0:
            session.served(key)
        return news

    def _count(self, topic: TopicKey, reply: FetchPartitionReply) -> None:
        if reply.error:
            self.context.failed(reply.error)
        name = self.broker.replicas.name_of(topic)
        if name is None:
            return  # Forged names make no counters; nor does a topic that was just deleted.
        counters = self.broker.counters.topic(name)
        counters.fetch_requests += 1
        counters.bytes_out += reply.records_size
        if reply.error:
            counters.failed_fetch += 1
