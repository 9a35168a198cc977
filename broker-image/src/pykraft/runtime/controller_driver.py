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

from pykraft.configs import effective_broker_configs
from pykraft.core.controller.brokers import our_features
from pykraft.core.controller.controller import Controller, ControllerConfig, Outcome
from pykraft.core.controller.image import MetadataImage
from pykraft.core.controller.placement import Dice
from pykraft.core.controller.records import (
    MV_3_6_IV1_TRANSACTIONS,
    RECORDS_PER_OPERATION_MAX,
    Transactions,
    snapshot_records,
    version_of,
)
from pykraft.core.raft.batches import group_records
from pykraft.core.raft.metadata_log import MetadataLogConfig
from pykraft.core.raft.voters import Voter, VoterAddress, VoterSet
from pykraft.core.storage import Disk, StorageError
from pykraft.handlers.context import Timer, World
from pykraft.ids import ZERO_UUID, Uuid
from pykraft.protocol.decoding import make_request
from pykraft.protocol.errors import ErrorCode, KafkaError
from pykraft.protocol.metadata_records import (
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
    NoOpRecord,
    encode_record,
)
from pykraft.protocol.versions import ApiKey
from pykraft.runtime.identity import NodeIdentity, new_uuid
from pykraft.runtime.raft_driver import RaftConfig, RaftDriver
from pykraft.settings import Listener, Settings

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

    def register(self, incarnation: Uuid, listeners: Sequence[Listener]) -> None:
        """Say which addresses this controller has."""
        request = make_request(
            ApiKey.CONTROLLER_REGISTRATION,
            {
                "controller_id": self.controller.config.node_id,
                "incarnation_id": incarnation,
                "zk_migration_ready": False,
                "listeners": [
                    {"name": e.name, "host": e.host, "port": e.port, "security_protocol": 0}
                    for e in listeners
                ],
                "features": [
                    {"name": name, "min_supported_version": low, "max_supported_version": high}
                    for name, (low, high) in our_features().items()
                ],
            },
        )
        self.submit(lambda controller: controller.register_controller(request), _ignore)

    # Operations

    def submit(self, operation: Callable[[Controller], Outcome], done: Done) -> None:
        """Raises KafkaError when this is not the active controller, or too much is waiting."""
        if not self.raft.is_leader or self.is_stopped:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "this controller is not active")
        if len(self._in_flight) >= OPERATIONS_IN_FLIGHT_MAX:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the metadata log cannot follow")
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
        if end == self._end_at_last_tick and self.raft.is_leader:
            self.submit(lambda _: Outcome([NoOpRecord()]), _ignore)
            end += 1
        self._end_at_last_tick = end

    def _fence_silent(self) -> None:
        mine = self.controller.config.node_id
        if self.raft.is_leader and any(b != mine for b in self.controller.image.brokers):
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


def build_controller(
    settings: Settings,
    identity: NodeIdentity,
    disk: Disk,
    world: World,
    *,
    dice: Dice,
    on_fatal: Callable[[StorageError], None],
) -> ControllerDriver:
    """The controller of this node; `disk` is its metadata directory. Then `open` and `start` it."""
    raft = RaftDriver(disk, world, raft_config(settings, identity), on_fatal=on_fatal)
    controller = Controller(controller_config(settings, identity.cluster_id), new_uuid, dice)
    times = ControllerTimes(
        max_idle_interval_ms=settings.metadata_max_idle_interval_ms,
        snapshot_bytes=settings.metadata_log_max_record_bytes_between_snapshots,
        snapshot_interval_ms=settings.metadata_log_max_snapshot_interval_ms,
    )
    return ControllerDriver(raft, controller, world, times, on_fatal=on_fatal)


def controller_config(settings: Settings, cluster_id: str) -> ControllerConfig:
    values = effective_broker_configs(settings.layers)
    min_isr = values["min.insync.replicas"]
    assert isinstance(min_isr, int)
    return ControllerConfig(
        node_id=settings.node_id,
        cluster_id=cluster_id,
        static_configs=settings.static,
        num_partitions=settings.num_partitions,
        default_replication_factor=settings.default_replication_factor,
        min_insync_replicas=min_isr,
        unclean_leader_election=bool(values["unclean.leader.election.enable"]),
        delete_topic_enable=settings.delete_topic_enable,
        broker_session_timeout_ms=settings.broker_session_timeout_ms,
    )


def raft_config(settings: Settings, identity: NodeIdentity) -> RaftConfig:
    names = [listener.name for listener in settings.addresses.controller_listeners]
    static = VoterSet(
        tuple(
            Voter(each.id, ZERO_UUID, (VoterAddress(names[0], each.host, each.port),))
            for each in settings.quorum_voters
        )
    )
    return RaftConfig(
        node_id=settings.node_id,
        directory_id=identity.directory_ids[settings.metadata_log_dir],
        static_voters=static,
        log=MetadataLogConfig(
            segment_bytes=settings.internal_metadata_log_segment_bytes
            or settings.metadata_log_segment_bytes,
            segment_ms=settings.metadata_log_segment_ms,
            retention_bytes=settings.metadata_max_retention_bytes,
            retention_ms=settings.metadata_max_retention_ms,
            batch_bytes_max=settings.internal_metadata_max_batch_size_in_bytes,
        ),
    )


def _ignore(_: Mapping[str, Any]) -> None:
    return None
