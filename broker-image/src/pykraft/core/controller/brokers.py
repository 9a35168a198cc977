"""The life of a broker: registered fenced, unfenced once it has caught up, fenced when it goes.

A broker epoch is the offset at which the registration begins, so that it grows with every start.
Heartbeats themselves are not in the log: what they say lives in `Sessions` and is lost with the
controller, which then gives every broker a full session to say it again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pykraft.core.controller.features import KRAFT_VERSION, SUPPORTED
from pykraft.core.controller.image import BrokerImage, ControllerImage, MetadataImage
from pykraft.core.controller.outcome import ControllerConfig, Outcome
from pykraft.core.controller.partitions import Leaders
from pykraft.core.controller.records import (
    MV_3_7_IV0_CONTROLLER_REGISTRATION,
    MV_3_7_IV2_DIRECTORIES,
    MV_4_3_IV0_CORDONED,
    broker_record,
    controller_record,
)
from pykraft.ids import FIRST_UNRESERVED_UUID, Uuid
from pykraft.protocol.errors import ErrorCode, KafkaError
from pykraft.protocol.metadata_records import (
    BrokerRegistrationChangeRecord,
    Endpoint,
    MetadataRecord,
    UnregisterBrokerRecord,
)

FENCE = 1
UNFENCE = -1


@dataclass(slots=True)
class Session:
    """What the last heartbeat of a broker said, and when it came."""

    epoch: int
    last_contact_ms: int
    metadata_offset: int = -1
    # The end of the log when its controlled shutdown began; others must have read that far.
    shutdown_offset: int | None = None


@dataclass(slots=True)
class Sessions:
    timeout_ms: int
    by_broker: dict[int, Session] = field(default_factory=dict)

    def touch(self, broker: BrokerImage, metadata_offset: int, now_ms: int) -> Session:
        session = self.by_broker.get(broker.id)
        if session is None or session.epoch != broker.epoch:
            session = self.by_broker[broker.id] = Session(broker.epoch, now_ms)
        session.last_contact_ms = now_ms
        session.metadata_offset = max(session.metadata_offset, metadata_offset)
        return session

    def is_alive(self, broker: BrokerImage, now_ms: int) -> bool:
        session = self.by_broker.get(broker.id)
        if session is None or session.epoch != broker.epoch:
            return False
        return now_ms - session.last_contact_ms < self.timeout_ms


@dataclass(slots=True)
class BrokerControl:
    image: MetadataImage
    config: ControllerConfig
    leaders: Leaders
    sessions: Sessions

    # Registration

    def register_broker(self, request: Any, now_ms: int, next_offset: int) -> Outcome:
        """`next_offset` is where the records will be written: it becomes the broker epoch."""
        try:
            records, epoch = self._register(request, now_ms, next_offset)
        except KafkaError as error:
            return Outcome(reply={"error_code": error.code, "broker_epoch": -1})
        return Outcome(records, {"error_code": ErrorCode.NONE, "broker_epoch": epoch})

    def _register(
        self, request: Any, now_ms: int, next_offset: int
    ) -> tuple[list[MetadataRecord], int]:
        if request.cluster_id != self.config.cluster_id:
            raise KafkaError(
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                f"Expected cluster ID {self.config.cluster_id}, but got {request.cluster_id}",
            )
        old = self.image.brokers.get(request.broker_id)
        is_same = old is not None and old.incarnation == request.incarnation_id
        if old is not None and not is_same and self._blocks(old, now_ms):
            raise KafkaError(
                ErrorCode.DUPLICATE_BROKER_REGISTRATION,
                "Another broker is registered with that broker id.",
            )
        self._check_features(request)
        log_dirs = self._checked_directories(request)
        records: list[MetadataRecord] = []
        if old is not None and not is_same:
            records += self._after_shutdown(old, request.previous_broker_epoch)
        broker = BrokerImage(
            id=request.broker_id,
            epoch=old.epoch if old is not None and is_same else next_offset,
            incarnation=Uuid(bytes(request.incarnation_id)),
            endpoints=_endpoints(request.listeners),
            features=_ranges(request.features),
            rack=request.rack,
            fenced=old.fenced if old is not None and is_same else True,
            in_controlled_shutdown=old is not None and is_same and old.in_controlled_shutdown,
            log_dirs=log_dirs,
        )
        self.sessions.touch(broker, -1, now_ms)
        return [*records, broker_record(broker)], broker.epoch

    def _blocks(self, old: BrokerImage, now_ms: int) -> bool:
        """Two processes with one id: the first stays, until its session ends or it says goodbye."""
        return not old.in_controlled_shutdown and self.sessions.is_alive(old, now_ms)

    def _after_shutdown(self, old: BrokerImage, previous_epoch: int) -> list[MetadataRecord]:
        """Only a broker that names its last epoch was shut down cleanly and has all its logs."""
        if not self.image.elr_enabled or previous_epoch == old.epoch:
            return self.leaders.on_fenced(old.id)
        return self.leaders.on_unclean_shutdown(old.id)

    def _check_features(self, request: Any) -> None:
        ranges = _ranges(request.features)
        for name, level in sorted(self.image.features.items()):
            low, high = ranges.get(name, (0, 0))
            if not low <= level <= high:
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_VERSION,
                    f"Unable to register because the broker does not support finalized version "
                    f"{level} of {name}. The broker wants a version between {low} and {high}, "
                    "inclusive.",
                )

    def _checked_directories(self, request: Any) -> tuple[Uuid, ...]:
        directories = tuple(Uuid(bytes(each)) for each in request.log_dirs or ())
        if self.image.metadata_version < MV_3_7_IV2_DIRECTORIES:
            return ()
        if not directories:
            raise _invalid_registration("No directories specified in request")
        if len(set(directories)) != len(directories):
            raise _invalid_registration("Directory ids in request are not unique")
        for directory in directories:
            if directory < FIRST_UNRESERVED_UUID:
                raise _invalid_registration("Reserved directory ID in request")
            for other in self.image.brokers.values():
                if other.id != request.broker_id and directory in other.log_dirs:
                    message = f"Broker {other.id} is already registered with directory"
                    raise _invalid_registration(message)
        return directories

    def register_controller(self, request: Any) -> Outcome:
        if self.image.metadata_version < MV_3_7_IV0_CONTROLLER_REGISTRATION:
            message = "The current MetadataVersion is too old to support controller registrations."
            code = ErrorCode.UNSUPPORTED_VERSION
            return Outcome(reply={"error_code": code, "error_message": message})
        controller = ControllerImage(
            id=request.controller_id,
            incarnation=Uuid(bytes(request.incarnation_id)),
            endpoints=_endpoints(request.listeners),
            features=_ranges(request.features),
            zk_migration_ready=request.zk_migration_ready,
        )
        reply = {"error_code": ErrorCode.NONE, "error_message": None}
        return Outcome([controller_record(controller)], reply)

    def unregister_broker(self, request: Any) -> Outcome:
        broker = self.image.brokers.get(request.broker_id)
        if broker is None:
            code = ErrorCode.BROKER_ID_NOT_REGISTERED
            message = f"Broker ID {request.broker_id} is not currently registered"
            return Outcome(reply={"error_code": code, "error_message": message})
        records = self.leaders.on_fenced(broker.id)
        records.append(UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch))
        self.sessions.by_broker.pop(broker.id, None)
        reply = {"error_code": ErrorCode.NONE, "error_message": None}
        return Outcome(records, reply, atomic=False)

    # Heartbeats

    def heartbeat(self, request: Any, now_ms: int) -> Outcome:
        broker = self.image.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            return Outcome(reply={"error_code": ErrorCode.STALE_BROKER_EPOCH})
        session = self.sessions.touch(broker, request.current_metadata_offset, now_ms)
        caught_up = session.metadata_offset >= broker.epoch
        records, fenced, leave = self._next_state(broker, session, request, caught_up)
        records += self._offline_directories(broker, request.offline_log_dirs or ())
        records += self._cordoned_directories(broker, request.cordoned_log_dirs)
        reply = {
            "error_code": ErrorCode.NONE,
            "is_caught_up": caught_up,
            "is_fenced": fenced,
            "should_shut_down": leave,
        }
        return Outcome(records, reply, atomic=False)

    def _next_state(
        self, broker: BrokerImage, session: Session, request: Any, caught_up: bool
    ) -> tuple[list[MetadataRecord], bool, bool]:
        """Records, and whether the broker is fenced and may shut down after them."""
        if broker.fenced:
            if request.want_shut_down:
                return [], True, True
            if request.want_fence or not caught_up:
                return [], True, False
            return self._unfence(broker), False, False
        if broker.in_controlled_shutdown:
            if self._leads(broker.id) or not self._others_know(broker.id, session):
                return [], False, False
            return self.fence(broker), True, True
        if request.want_fence:
            return self.fence(broker), True, request.want_shut_down
        if not request.want_shut_down:
            return [], False, False
        if not self._leads(broker.id):
            return self.fence(broker), True, True
        records = self._begin_shutdown(broker)
        session.shutdown_offset = self.image.offset + len(records)
        return records, False, False

    def _leads(self, broker: int) -> bool:
        return any(partition.leader == broker for _, _, partition in self.image.partitions())

    def _others_know(self, broker: int, session: Session) -> bool:
        """Whether all active brokers have read that this one leads no more."""
        if session.shutdown_offset is None:
            return True
        offsets = [
            known.metadata_offset if (known := self.sessions.by_broker.get(other.id)) else -1
            for other in self.image.brokers.values()
            if other.is_active and other.id != broker
        ]
        return min(offsets, default=session.shutdown_offset) >= session.shutdown_offset

    def fence(self, broker: BrokerImage) -> list[MetadataRecord]:
        return [*self.leaders.on_fenced(broker.id), _change(broker, fenced=FENCE)]

    def _unfence(self, broker: BrokerImage) -> list[MetadataRecord]:
        return [_change(broker, fenced=UNFENCE), *self.leaders.on_unfenced(broker.id)]

    def _begin_shutdown(self, broker: BrokerImage) -> list[MetadataRecord]:
        record = _change(broker, in_controlled_shutdown=1)
        return [record, *self.leaders.on_fenced(broker.id)]

    def _offline_directories(
        self, broker: BrokerImage, offline: Iterable[bytes]
    ) -> list[MetadataRecord]:
        lost = [each for each in broker.log_dirs if each in frozenset(map(bytes, offline))]
        if not lost:
            return []
        records = self.leaders.on_directories_lost(broker.id, lost)
        left = tuple(each for each in broker.log_dirs if each not in lost)
        return [*records, _change(broker, log_dirs=left)]

    def _cordoned_directories(
        self, broker: BrokerImage, cordoned: Iterable[bytes] | None
    ) -> list[MetadataRecord]:
        if cordoned is None or self.image.metadata_version < MV_4_3_IV0_CORDONED:
            return []
        now = tuple(Uuid(bytes(each)) for each in cordoned)
        if now == broker.cordoned_log_dirs:
            return []
        return [_change(broker, cordoned_log_dirs=now)]

    # What no request asks for

    def fence_silent(self, now_ms: int) -> Outcome:
        """Fence the brokers whose session has ended."""
        records: list[MetadataRecord] = []
        for _, broker in sorted(self.image.brokers.items()):
            # A combined node is alive as long as it runs this, however late its timers are.
            if broker.id == self.config.node_id:
                continue
            is_known = not broker.fenced and broker.id in self.sessions.by_broker
            if is_known and not self.sessions.is_alive(broker, now_ms):
                records += self.fence(broker)
        return Outcome(records, atomic=False)

    def fence_dead(self, broker_id: int) -> Outcome:
        """Fence a broker that is known to be dead, without waiting for its session to end.

        A combined node knows this of its own former self when it starts.
        """
        self.sessions.by_broker.pop(broker_id, None)
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker.fenced:
            return Outcome()
        return Outcome(self.fence(broker), atomic=False)

    def expect_heartbeats(self, now_ms: int) -> None:
        """A new leader knows no sessions: each unfenced broker gets a full one from now on."""
        for broker in self.image.brokers.values():
            if not broker.fenced:
                self.sessions.touch(broker, -1, now_ms)


def our_features(kraft_version_too: bool = True) -> dict[str, tuple[int, int]]:
    """What this node says of itself when it registers."""
    return {k: v for k, v in SUPPORTED.items() if kraft_version_too or k != KRAFT_VERSION}


def _change(broker: BrokerImage, **changes: Any) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, **changes)


def _endpoints(listeners: Iterable[Any]) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
        for e in listeners
    )


def _ranges(features: Iterable[Any]) -> dict[str, tuple[int, int]]:
    return {f.name: (f.min_supported_version, f.max_supported_version) for f in features}


def _invalid_registration(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REGISTRATION, message)
