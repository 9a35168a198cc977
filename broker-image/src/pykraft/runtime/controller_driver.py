"""Runs the controller on the metadata log: operations in, committed records and replies out.

An operation is decided at once against the controller's own image, which is ahead of what is
committed. Its records are appended and replayed there, and reach listeners and the reply reaches
its asker when the log has them safe. If they cannot become safe, the node stops.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pykraft.core.controller.controller import Controller, Outcome
from pykraft.core.controller.image import MetadataImage
from pykraft.core.controller.records import (
    MV_3_6_IV1_TRANSACTIONS,
    RECORDS_PER_OPERATION_MAX,
    Transactions,
    snapshot_records,
    version_of,
)
from pykraft.core.raft.batches import group_records
from pykraft.core.storage import StorageError
from pykraft.handlers.context import Timer, World
from pykraft.protocol.errors import ErrorCode, KafkaError
from pykraft.protocol.metadata_records import (
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
    NoOpRecord,
    encode_record,
)
from pykraft.runtime.raft_driver import RaftDriver

log = logging.getLogger("pykraft.controller")

# Operations that may wait for the disk. One sync serves all of them, so that a thousand clients
# are nothing; ten thousand are a disk that hangs, and the next one is told so.
OPERATIONS_IN_FLIGHT_MAX = 10_000

Done = Callable[[Mapping[str, Any]], None]
OnCommit = Callable[[Sequence[MetadataRecord], int, int], None]


@dataclass(frozen=True, slots=True)
class ControllerTimes:
    # How often a record that says nothing moves the log on; 0 is never.
    max_idle_interval_ms: int = 500
    snapshot_bytes: int = 20 << 20
    # 0 is never.
    snapshot_interval_ms: int = 3_600_000


@dataclass(frozen=True, slots=True)
class _Appended:
    """A batch on its way to be committed, or (without records) a reply that waits for others."""

    last_offset: int
    records: Sequence[MetadataRecord]
    done: Done | None = None
    reply: Mapping[str, Any] | None = None


class ControllerDriver:
    """Implements handlers.context.ControllerGateway."""

    def __init__(
        self,
        raft: RaftDriver,
        controller: Controller,
        world: World,
        times: ControllerTimes,
        *,
        on_fatal: Callable[[StorageError], None],
    ) -> None:
        self.raft = raft
        self.controller = controller
        self.world = world
        self.times = times
        self.on_fatal = on_fatal
        self.listeners: list[OnCommit] = []
        self.is_stopped = False
        # Who sees committed records sees transactions only once they have ended.
        self._committed = Transactions()
        self._in_flight: deque[_Appended] = deque()
        # Operations that wait until a snapshot has been taken.
        self._held: deque[tuple[Callable[[Controller], Outcome], Done]] = deque()
        self._timers: dict[str, Timer] = {}
        self._end_at_last_tick = -1
        raft.on_advance = self._on_advance

    # Starting

    def open(self) -> None:
        """Read the metadata. Raises StorageError, QuorumError."""
        self.raft.open(self.controller.replay)
        self.controller.features.kraft_version = self.raft.replica.kraft_version
        pending = self.controller.transactions.pending
        self._committed.pending = None if pending is None else list(pending)

    def committed_image(self) -> MetadataImage:
        """An image of its own for a listener that begins now. Only before `start`.

        With one voter all that the log has is committed.
        """
        assert not self.raft.is_leader
        return self.controller.image.copy()

    def start(self, bootstrap: Sequence[MetadataRecord]) -> None:
        """Become the active controller; `bootstrap` is what `format` wrote for an empty log."""
        self.raft.lead()
        # Control records move the offsets on as well.
        self.controller.replay((), self.raft.log.log_end_offset - 1, self.raft.epoch)
        self.submit(lambda controller: controller.activate(bootstrap), _ignore)
        self.controller.brokers.expect_heartbeats(self.world.now_ms())
        if self.times.max_idle_interval_ms > 0:
            self._every("no-op", self.times.max_idle_interval_ms, self._no_op)
        timeout_ms = self.controller.config.broker_session_timeout_ms
        self._every("sessions", max(timeout_ms // 4, 1), self._fence_silent)

    def _every(self, name: str, interval_ms: int, work: Callable[[], None]) -> None:
        def run() -> None:
            if not self.is_stopped:
                self._every(name, interval_ms, work)
                work()

        self._timers[name] = self.world.call_later(interval_ms, run)

    # Operations

    def submit(self, operation: Callable[[Controller], Outcome], done: Done) -> None:
        """Raises KafkaError when this is not the active controller, or too much is waiting."""
        # After a failed sync nobody knows what the disk has: nothing more may be acknowledged.
        if not self.raft.is_leader or self.is_stopped or self.raft.failed:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "this controller is not active")
        if len(self._in_flight) + len(self._held) >= OPERATIONS_IN_FLIGHT_MAX:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the metadata log cannot follow")
        if self._held or self._snapshot_is_overdue():
            self._held.append((operation, done))
            return
        self._run(operation, done)

    def _run(self, operation: Callable[[Controller], Outcome], done: Done) -> None:
        outcome = operation(self.controller)
        if outcome.records:
            self._append(outcome, done)
        elif self._in_flight:
            # The answer may rest on what is not committed yet, such as "it exists already".
            last = self._in_flight[-1].last_offset
            self._in_flight.append(_Appended(last, (), done, outcome.reply))
        else:
            done(outcome.reply)

    def _append(self, outcome: Outcome, done: Done) -> None:
        batches = list(self._batches(outcome))
        for number, (records, values) in enumerate(batches, 1):
            try:
                last_offset = self.raft.append(values)
            except StorageError as error:
                self._fail(error)
                return
            self.controller.replay(records, last_offset, self.raft.epoch)
            is_last = number == len(batches)
            self._in_flight.append(
                _Appended(last_offset, records, done if is_last else None, outcome.reply)
            )

    def _batches(self, outcome: Outcome) -> Iterable[tuple[list[MetadataRecord], list[bytes]]]:
        """One batch is atomic by itself; more are made so by a metadata transaction."""
        records = outcome.records
        whole = list(self._group(records))
        can_begin = (
            self.controller.image.metadata_version >= MV_3_6_IV1_TRANSACTIONS
            and not self.controller.transactions.is_open
        )
        if len(whole) > 1 and outcome.atomic and can_begin:
            begin = BeginTransactionRecord(name="operation of several batches")
            return self._group([begin, *records, EndTransactionRecord()])
        return whole

    def _group(
        self, records: Iterable[MetadataRecord]
    ) -> Iterable[tuple[list[MetadataRecord], list[bytes]]]:
        return group_records(
            records,
            self._encode,
            count_max=RECORDS_PER_OPERATION_MAX,
            bytes_max=self.raft.config.log.batch_bytes_max,
        )

    def _encode(self, record: MetadataRecord) -> bytes:
        return encode_record(record, version_of(record, self.controller.image.metadata_version))

    # What is committed

    def _on_advance(self, high_watermark: int) -> None:
        while self._in_flight and self._in_flight[0].last_offset < high_watermark:
            batch = self._in_flight.popleft()
            if batch.records:
                effective = self._committed.effective(batch.records)
                for listener in self.listeners:
                    listener(effective, batch.last_offset, self.raft.epoch)
            if batch.done is not None:
                assert batch.reply is not None
                batch.done(batch.reply)
        self._snapshot_if_due()
        while self._held and not self._snapshot_is_overdue():
            self._run(*self._held.popleft())

    def _snapshot_is_overdue(self) -> bool:
        """A snapshot needs a moment in which all is committed.

        Under steady load there is none, so that at twice the size new operations wait for one.
        """
        return self.raft.bytes_since_snapshot >= 2 * self.times.snapshot_bytes and bool(
            self._in_flight
        )

    def _snapshot_if_due(self) -> None:
        if self.is_stopped or not self.raft.is_all_committed or self._committed.is_open:
            return
        age_ms = self.world.now_ms() - self.raft.snapshot_ms
        interval_ms = self.times.snapshot_interval_ms
        is_old = 0 < interval_ms <= age_ms and self.raft.bytes_since_snapshot > 0
        if is_old or self.raft.bytes_since_snapshot >= self.times.snapshot_bytes:
            self.take_snapshot()

    def take_snapshot(self) -> bool:
        """Everything must be committed: the controller's image is what the log says then."""
        image = self.controller.image
        metadata_version = image.metadata_version
        return self.raft.take_snapshot(
            list(snapshot_records(image)),
            lambda record: encode_record(record, version_of(record, metadata_version)),
            epoch=image.epoch,
        )

    # By the clock

    def _no_op(self) -> None:
        end = self.raft.log.log_end_offset
        if end == self._end_at_last_tick and self.raft.is_leader and not self.raft.failed:
            self.submit(lambda _: Outcome([NoOpRecord()]), _ignore)
            end += 1
        self._end_at_last_tick = end

    def _fence_silent(self) -> None:
        mine = self.controller.config.node_id
        others = any(broker != mine for broker in self.controller.image.brokers)
        if self.raft.is_leader and not self.raft.failed and others:
            now_ms = self.world.now_ms()
            self.submit(lambda controller: controller.fence_silent_brokers(now_ms), _ignore)

    # Stopping and failing

    def stop(self, done: Callable[[], None]) -> None:
        """Take no more operations, let those in flight end, and close the log."""
        self.is_stopped = True
        for timer in self._timers.values():
            timer.cancel()
        self.raft.stop(done)

    def _fail(self, error: StorageError) -> None:
        """The controller's image may be ahead of a log that will never follow."""
        if not self.raft.failed:
            self.raft.failed = True
            self.on_fatal(error)

    def describe_quorum(self) -> Mapping[str, Any]:
        return self.raft.describe_quorum()


def _ignore(_: Mapping[str, Any]) -> None:
    return None
