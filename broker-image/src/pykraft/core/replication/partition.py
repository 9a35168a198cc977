"""One hosted partition: its log, its leadership and those who wait for its high watermark.

Invariant: log_start_offset <= high_watermark <= log_end_offset. The high watermark never goes back
within a leader epoch. With one replica it is the log end; the minimum over the ISR comes with
followers.
"""

from collections.abc import Callable
from typing import Protocol

from pykraft.core.log.partition_log import Appended, PartitionLog
from pykraft.core.storage import StorageError
from pykraft.ids import Uuid
from pykraft.protocol.errors import ErrorCode, KafkaError

ANY_EPOCH = -1


class FetchWaiter(Protocol):
    """A long poll. It is told of new bytes, and takes itself off the list when it has enough."""

    def on_bytes(self, count: int) -> None: ...

    def on_change(self) -> None:
        """The partition moved, failed or went away: answer with what there is."""


class Partition:
    __slots__ = (
        "commit_waiters",
        "fetch_waiters",
        "flush_waiters",
        "high_watermark",
        "index",
        "is_leader",
        "isr",
        "leader",
        "leader_epoch",
        "log",
        "offline",
        "on_storage_error",
        "partition_epoch",
        "replicas",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        topic_id: Uuid,
        index: int,
        log: PartitionLog,
        on_storage_error: Callable[["Partition", StorageError], None],
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.on_storage_error = on_storage_error
        self.leader = -1
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.is_leader = False
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        # The log directory failed: every use is answered KAFKA_STORAGE_ERROR.
        self.offline = False
        self.high_watermark = log.log_start_offset
        self.fetch_waiters: list[FetchWaiter] = []
        # Appends that wait to be committed: (required end offset, callback), in append order.
        self.commit_waiters: list[tuple[int, Callable[[int], None]]] = []
        # Those who wait for the flush that is under way.
        self.flush_waiters: list[Callable[[int], None]] = []
        log.on_flushed(self._flushed)

    @property
    def last_stable_offset(self) -> int:
        """The first open transaction bounds it; without transactions it is the high watermark."""
        return self.high_watermark

    def lead(self, leader_epoch: int, *, node_id: int) -> None:
        """Become leader in a new epoch: the epoch starts at the log's end."""
        self.leader = node_id
        self.leader_epoch = leader_epoch
        self.is_leader = True
        self.log.assign_epoch(leader_epoch)
        self._advance_high_watermark()

    def step_down(self, leader: int, leader_epoch: int) -> None:
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.is_leader = False
        self.fail_waiters(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def check_leader(self, current_leader_epoch: int = ANY_EPOCH) -> None:
        """Raise KafkaError unless we lead, in the epoch that the client believes in."""
        if self.offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        if current_leader_epoch not in (ANY_EPOCH, self.leader_epoch):
            if current_leader_epoch < self.leader_epoch:
                raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if not self.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def append(self, records: memoryview, now_ms: int, checked: bool = False) -> Appended:
        """Append one client batch as leader. The direct path of Produce: no effect, no copy."""
        if self.offline or not self.is_leader:
            self.check_leader()
        try:
            appended = self.log.append(
                records, leader_epoch=self.leader_epoch, now_ms=now_ms, checked=checked
            )
        except StorageError as error:
            self.on_storage_error(self, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        if not appended.duplicate:
            self._advance_high_watermark(len(records))
        return appended

    def is_committed(self, end_offset: int) -> bool:
        return self.high_watermark >= end_offset

    def when_committed(self, end_offset: int, callback: Callable[[int], None]) -> None:
        """Call back with an error code once the high watermark reaches `end_offset`."""
        self.commit_waiters.append((end_offset, callback))

    def when_flushed(self, callback: Callable[[int], None]) -> None:
        """Call back with an error code once the flush that is under way has ended."""
        self.flush_waiters.append(callback)

    def _flushed(self) -> None:
        waiting, self.flush_waiters = self.flush_waiters, []
        for callback in waiting:
            callback(ErrorCode.NONE)

    def _advance_high_watermark(self, new_bytes: int = 0) -> None:
        end = self.log.log_end_offset
        assert end >= self.high_watermark, (self.topic, self.index, end, self.high_watermark)
        self.high_watermark = end
        if self.commit_waiters:
            self._release_committed()
        if self.fetch_waiters:
            for waiter in tuple(self.fetch_waiters):
                waiter.on_bytes(new_bytes)

    def _release_committed(self) -> None:
        ready = [item for item in self.commit_waiters if item[0] <= self.high_watermark]
        self.commit_waiters = [x for x in self.commit_waiters if x[0] > self.high_watermark]
        for _, callback in ready:
            callback(ErrorCode.NONE)

    def fail_waiters(self, code: ErrorCode) -> None:
        """Leadership, disk or topic is gone: nobody may wait on."""
        uncommitted, self.commit_waiters = self.commit_waiters, []
        unflushed, self.flush_waiters = self.flush_waiters, []
        for callback in [*(callback for _, callback in uncommitted), *unflushed]:
            callback(code)
        for waiter in tuple(self.fetch_waiters):
            waiter.on_change()

    def take_offline(self) -> None:
        self.offline = True
        self.fail_waiters(ErrorCode.KAFKA_STORAGE_ERROR)
