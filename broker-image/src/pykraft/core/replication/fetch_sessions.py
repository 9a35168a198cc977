"""Fetch sessions (KIP-227): a client names its partitions once and then only what changed.

The cache is bounded by slots, and by the partitions that all sessions name together. A new session
may take the slot of one that was idle for longer than the eviction time; when there is none, the
client is simply served without a session. One that names too many later on loses its session.

Epochs: 0 asks for a new session, -1 closes one, any other number must be the next one expected.
They run from 1 to 2**31 - 1 and start at 1 again.
"""

from collections.abc import Callable, Iterable, Mapping

from pykraft.core.replication.replicas import TopicKey
from pykraft.protocol.errors import ErrorCode, KafkaError

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
NO_SESSION = 0
EPOCH_MAX = 2**31 - 1
# Of all sessions together; one takes about 300 bytes.
PARTITIONS_MAX = 200_000

# A topic is a name up to version 12 and an id from version 13 on; a session keeps to one of them.
PartitionKey = tuple[TopicKey, int]


class SessionPartition:
    """What the client wants of one partition, and what we last told it."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
    )

    def __init__(
        self, fetch_offset: int, max_bytes: int, current_leader_epoch: int, last_fetched_epoch: int
    ) -> None:
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        # Unequal to any real value, so that the first answer always tells both.
        self.high_watermark = -2
        self.log_start_offset = -2

    def wants(self, other: "SessionPartition") -> None:
        """Take over what the client now asks; what we told it stays known."""
        self.fetch_offset = other.fetch_offset
        self.max_bytes = other.max_bytes
        self.current_leader_epoch = other.current_leader_epoch
        self.last_fetched_epoch = other.last_fetched_epoch


Wanted = Mapping[PartitionKey, SessionPartition]


class FetchSession:
    __slots__ = ("epoch", "id", "last_used_ms", "partitions", "uses_ids")

    def __init__(self, session_id: int, uses_ids: bool, now_ms: int) -> None:
        self.id = session_id
        self.epoch = 1
        self.uses_ids = uses_ids
        self.last_used_ms = now_ms
        # In the order of service: a partition that gave data goes to the end, so that a small
        # max_bytes starves nobody.
        self.partitions: dict[PartitionKey, SessionPartition] = {}

    def served(self, key: PartitionKey) -> None:
        state = self.partitions.pop(key, None)
        if state is not None:
            self.partitions[key] = state


class FetchSessions:
    """All sessions of a broker. `new_id` gives a positive number, the shell knows from where."""

    def __init__(self, slots: int, eviction_ms: int, new_id: Callable[[], int]) -> None:
        self.slots = slots
        self.eviction_ms = eviction_ms
        self.new_id = new_id
        # Least recently used first.
        self.sessions: dict[int, FetchSession] = {}
        # Invariant: the sum over all sessions.
        self.partitions = 0
        self.evictions = 0

    def open(self, wanted: Wanted, *, uses_ids: bool, now_ms: int) -> FetchSession | None:
        """A new session, or None when there is no room for it."""
        if self.slots <= 0 or len(wanted) > PARTITIONS_MAX:
            return None
        while len(self.sessions) >= self.slots or self.partitions + len(wanted) > PARTITIONS_MAX:
            if not self._evict(now_ms):
                return None
        session_id = self.new_id()
        while session_id == NO_SESSION or session_id in self.sessions:
            session_id = self.new_id()
        session = FetchSession(session_id, uses_ids, now_ms)
        session.partitions.update(wanted)
        self.sessions[session_id] = session
        self.partitions += len(wanted)
        return session

    def _evict(self, now_ms: int) -> bool:
        oldest = next(iter(self.sessions.values()), None)
        if oldest is None or now_ms - oldest.last_used_ms < self.eviction_ms:
            return False
        self.close(oldest.id)
        self.evictions += 1
        return True

    def close(self, session_id: int) -> None:
        closed = self.sessions.pop(session_id, None)
        if closed is not None:
            self.partitions -= len(closed.partitions)

    def resume(self, session_id: int, epoch: int, *, uses_ids: bool, now_ms: int) -> FetchSession:
        """The session for an incremental request; moves its epoch on. Raises Kafka's refusals."""
        session = self.sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_ids != uses_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        session.last_used_ms = now_ms
        # To the end: least recently used stays first.
        self.sessions[session_id] = self.sessions.pop(session_id)
        return session

    def update(
        self, session: FetchSession, wanted: Wanted, forgotten: Iterable[PartitionKey]
    ) -> None:
        """What the client now wants besides, and no more. Raises when there is no room for it."""
        before = len(session.partitions)
        for key, state in wanted.items():
            known = session.partitions.get(key)
            if known is None:
                session.partitions[key] = state
            else:
                known.wants(state)
        for key in forgotten:
            session.partitions.pop(key, None)
        self.partitions += len(session.partitions) - before
        if self.partitions > PARTITIONS_MAX:
            self.close(session.id)
            # The client begins anew, and is then served without a session.
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
