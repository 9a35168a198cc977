"""The cluster's metadata as the metadata log tells it.

`replay` is the only writer. Everything inside is immutable and replaced as a whole, so that what
somebody took out of an image stays true, and a copy costs the dictionaries alone.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from pykraft.ids import UNASSIGNED_DIR, Uuid
from pykraft.protocol import metadata_records as md
from pykraft.protocol.metadata_records import Endpoint, MetadataRecord, SupportedFeature

NO_LEADER = -1
# What PartitionChangeRecord says for "the leader stays": the epoch stays with it.
NO_LEADER_CHANGE = -2
NO_CHANGE = -1
RECOVERED = 0
RECOVERING = 1

TOPIC = 2
BROKER = 4
BROKER_LOGGER = 8
CLIENT_METRICS = 16
GROUP = 32

METADATA_VERSION = "metadata.version"
ELR_VERSION = "eligible.leader.replicas.version"


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """Invariants: isr is part of replicas; a leader is in the isr; epochs never go back."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    # The log directory of each replica, in the order of `replicas`.
    directories: tuple[Uuid, ...] = ()
    # Replicas outside the ISR that have every committed record (KIP-966).
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    recovery_state: int = RECOVERED


@dataclass(frozen=True, slots=True)
class TopicImage:
    """`partitions` is a dictionary that replay alone changes; holders must not."""

    name: str
    id: Uuid
    partitions: dict[int, PartitionImage]


@dataclass(frozen=True, slots=True)
class BrokerImage:
    id: int
    epoch: int
    incarnation: Uuid
    endpoints: tuple[Endpoint, ...]
    features: dict[str, tuple[int, int]]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[Uuid, ...]
    # None until the broker said which of its directories take no new partitions (KIP-1066).
    cordoned_log_dirs: tuple[Uuid, ...] | None = None

    @property
    def is_active(self) -> bool:
        """May lead and be in an ISR."""
        return not self.fenced and not self.in_controlled_shutdown


@dataclass(frozen=True, slots=True)
class ControllerImage:
    id: int
    incarnation: Uuid
    endpoints: tuple[Endpoint, ...]
    features: dict[str, tuple[int, int]]
    zk_migration_ready: bool = False


QuotaEntity = tuple[tuple[str, str | None], ...]


@dataclass(slots=True)
class MetadataImage:
    features: dict[str, int] = field(default_factory=dict)
    topics: dict[str, TopicImage] = field(default_factory=dict)
    topics_by_id: dict[bytes, TopicImage] = field(default_factory=dict)
    brokers: dict[int, BrokerImage] = field(default_factory=dict)
    controllers: dict[int, ControllerImage] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    # The last allocation of producer ids, whose `next_producer_id` is the first that is free.
    producer_ids: md.ProducerIdsRecord | None = None
    # What nobody serves yet is kept all the same: a snapshot must not lose it.
    acls: dict[bytes, md.AccessControlEntryRecord] = field(default_factory=dict)
    quotas: dict[QuotaEntity, dict[str, float]] = field(default_factory=dict)
    scram: dict[tuple[str, int], md.UserScramCredentialRecord] = field(default_factory=dict)
    tokens: dict[str, md.DelegationTokenRecord] = field(default_factory=dict)
    zk_migration_state: int | None = None
    # The last record replayed, and the leader epoch that wrote it.
    offset: int = -1
    epoch: int = 0

    @property
    def metadata_version(self) -> int:
        return self.features.get(METADATA_VERSION, 0)

    @property
    def elr_enabled(self) -> bool:
        return self.features.get(ELR_VERSION, 0) > 0

    @property
    def next_producer_id(self) -> int:
        return self.producer_ids.next_producer_id if self.producer_ids is not None else 0

    def partitions(self) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
        for topic in self.topics.values():
            for index, partition in topic.partitions.items():
                yield topic, index, partition

    def copy(self) -> "MetadataImage":
        twin = replace(
            self,
            features=dict(self.features),
            brokers=dict(self.brokers),
            controllers=dict(self.controllers),
            configs={key: dict(values) for key, values in self.configs.items()},
            acls=dict(self.acls),
            quotas={key: dict(values) for key, values in self.quotas.items()},
            scram=dict(self.scram),
            tokens=dict(self.tokens),
        )
        twin.topics = {
            t.name: replace(t, partitions=dict(t.partitions)) for t in self.topics.values()
        }
        twin.topics_by_id = {topic.id: topic for topic in twin.topics.values()}
        return twin

    def replay(self, record: MetadataRecord) -> None:
        """Records are checked before they are written: one that does not fit is our own fault."""
        _REPLAY[type(record)](self, record)


# One function per record. They may assume what the controller that wrote the record checked.


def _replay_topic(image: MetadataImage, record: md.TopicRecord) -> None:
    topic = TopicImage(record.name, Uuid(record.topic_id), {})
    assert record.name not in image.topics, record
    image.topics[record.name] = topic
    image.topics_by_id[topic.id] = topic


def _replay_remove_topic(image: MetadataImage, record: md.RemoveTopicRecord) -> None:
    topic = image.topics_by_id.pop(record.topic_id)
    del image.topics[topic.name]
    image.configs.pop((TOPIC, topic.name), None)


def _replay_partition(image: MetadataImage, record: md.PartitionRecord) -> None:
    replicas = tuple(record.replicas)
    image.topics_by_id[record.topic_id].partitions[record.partition_id] = PartitionImage(
        replicas=replicas,
        isr=tuple(record.isr),
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        adding=tuple(record.adding_replicas),
        removing=tuple(record.removing_replicas),
        directories=_ids(record.directories) or (UNASSIGNED_DIR,) * len(replicas),
        elr=tuple(record.eligible_leader_replicas or ()),
        last_known_elr=tuple(record.last_known_elr or ()),
        recovery_state=record.leader_recovery_state,
    )


def _replay_partition_change(image: MetadataImage, record: md.PartitionChangeRecord) -> None:
    partitions = image.topics_by_id[record.topic_id].partitions
    partitions[record.partition_id] = changed(partitions[record.partition_id], record)


def changed(old: PartitionImage, record: md.PartitionChangeRecord) -> PartitionImage:
    """A leader that is named anew, also the same one, begins a new leader epoch."""
    keeps_leader = record.leader == NO_LEADER_CHANGE
    replicas = _or_old(record.replicas, old.replicas)
    directories = old.directories
    if record.directories is not None:
        directories = _ids(record.directories)
    elif record.replicas is not None:
        known = dict(zip(old.replicas, old.directories, strict=True))
        directories = tuple(known.get(replica, UNASSIGNED_DIR) for replica in replicas)
    recovery = record.leader_recovery_state
    return PartitionImage(
        replicas=replicas,
        isr=_or_old(record.isr, old.isr),
        leader=old.leader if keeps_leader else record.leader,
        leader_epoch=old.leader_epoch if keeps_leader else old.leader_epoch + 1,
        partition_epoch=old.partition_epoch + 1,
        adding=_or_old(record.adding_replicas, old.adding),
        removing=_or_old(record.removing_replicas, old.removing),
        directories=directories,
        elr=_or_old(record.eligible_leader_replicas, old.elr),
        last_known_elr=_or_old(record.last_known_elr, old.last_known_elr),
        recovery_state=old.recovery_state if recovery == NO_CHANGE else recovery,
    )


def _or_old(new: tuple[int, ...] | None, old: tuple[int, ...]) -> tuple[int, ...]:
    return old if new is None else tuple(new)


def _ids(values: Iterable[bytes]) -> tuple[Uuid, ...]:
    return tuple(Uuid(bytes(value)) for value in values)


def _replay_clear_elr(image: MetadataImage, record: md.ClearElrRecord) -> None:
    """The name of a topic, or nothing for every topic."""
    names = [record.topic_name] if record.topic_name else list(image.topics)
    for name in names:
        partitions = image.topics[name].partitions
        for index, old in partitions.items():
            if old.elr or old.last_known_elr:
                partitions[index] = replace(
                    old, elr=(), last_known_elr=(), partition_epoch=old.partition_epoch + 1
                )


def _features(values: Iterable[SupportedFeature]) -> dict[str, tuple[int, int]]:
    return {f.name: (f.min_supported_version, f.max_supported_version) for f in values}


def _replay_register_broker(image: MetadataImage, record: md.RegisterBrokerRecord) -> None:
    cordoned = record.cordoned_log_dirs
    image.brokers[record.broker_id] = BrokerImage(
        id=record.broker_id,
        epoch=record.broker_epoch,
        incarnation=Uuid(record.incarnation_id),
        endpoints=tuple(record.end_points),
        features=_features(record.features),
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        log_dirs=_ids(record.log_dirs),
        cordoned_log_dirs=None if cordoned is None else _ids(cordoned),
    )


def _replay_broker_change(image: MetadataImage, record: md.BrokerRegistrationChangeRecord) -> None:
    old = image.brokers[record.broker_id]
    changes: dict[str, Any] = {}
    if record.fenced:
        changes["fenced"] = record.fenced > 0
    if record.in_controlled_shutdown:
        changes["in_controlled_shutdown"] = record.in_controlled_shutdown > 0
    if record.log_dirs:
        changes["log_dirs"] = _ids(record.log_dirs)
    if record.cordoned_log_dirs is not None:
        changes["cordoned_log_dirs"] = _ids(record.cordoned_log_dirs)
    image.brokers[record.broker_id] = replace(old, **changes)


def _replay_unregister_broker(image: MetadataImage, record: md.UnregisterBrokerRecord) -> None:
    del image.brokers[record.broker_id]


def _replay_fence(image: MetadataImage, record: md.FenceBrokerRecord) -> None:
    image.brokers[record.id] = replace(image.brokers[record.id], fenced=True)


def _replay_unfence(image: MetadataImage, record: md.UnfenceBrokerRecord) -> None:
    image.brokers[record.id] = replace(image.brokers[record.id], fenced=False)


def _replay_register_controller(image: MetadataImage, record: md.RegisterControllerRecord) -> None:
    image.controllers[record.controller_id] = ControllerImage(
        id=record.controller_id,
        incarnation=Uuid(record.incarnation_id),
        endpoints=tuple(record.end_points),
        features=_features(record.features),
        zk_migration_ready=record.zk_migration_ready,
    )


def _replay_config(image: MetadataImage, record: md.ConfigRecord) -> None:
    key = (record.resource_type, record.resource_name)
    values = image.configs.get(key, {})
    if record.value is not None:
        values[record.name] = record.value
    else:
        values.pop(record.name, None)
    if values:
        image.configs[key] = values
    else:
        image.configs.pop(key, None)


def _replay_feature_level(image: MetadataImage, record: md.FeatureLevelRecord) -> None:
    if record.feature_level == 0:
        image.features.pop(record.name, None)
    else:
        image.features[record.name] = record.feature_level


def _replay_producer_ids(image: MetadataImage, record: md.ProducerIdsRecord) -> None:
    image.producer_ids = record


def _replay_acl(image: MetadataImage, record: md.AccessControlEntryRecord) -> None:
    image.acls[record.id] = record


def _replay_remove_acl(image: MetadataImage, record: md.RemoveAccessControlEntryRecord) -> None:
    del image.acls[record.id]


def _replay_quota(image: MetadataImage, record: md.ClientQuotaRecord) -> None:
    entity = tuple(sorted(((e.entity_type, e.entity_name) for e in record.entity), key=str))
    values = image.quotas.setdefault(entity, {})
    if record.remove:
        values.pop(record.key, None)
    else:
        values[record.key] = record.value
    if not values:
        del image.quotas[entity]


def _replay_scram(image: MetadataImage, record: md.UserScramCredentialRecord) -> None:
    image.scram[record.name, record.mechanism] = record


def _replay_remove_scram(image: MetadataImage, record: md.RemoveUserScramCredentialRecord) -> None:
    del image.scram[record.name, record.mechanism]


def _replay_token(image: MetadataImage, record: md.DelegationTokenRecord) -> None:
    image.tokens[record.token_id] = record


def _replay_remove_token(image: MetadataImage, record: md.RemoveDelegationTokenRecord) -> None:
    del image.tokens[record.token_id]


def _replay_zk_migration(image: MetadataImage, record: md.ZkMigrationStateRecord) -> None:
    image.zk_migration_state = record.zk_migration_state


def _replay_nothing(image: MetadataImage, record: MetadataRecord) -> None:
    """NoOp only moves the offset; the marks of transactions are obeyed before replay."""


_REPLAY: dict[type, Callable[[MetadataImage, Any], None]] = {
    md.TopicRecord: _replay_topic,
    md.RemoveTopicRecord: _replay_remove_topic,
    md.PartitionRecord: _replay_partition,
    md.PartitionChangeRecord: _replay_partition_change,
    md.ClearElrRecord: _replay_clear_elr,
    md.RegisterBrokerRecord: _replay_register_broker,
    md.BrokerRegistrationChangeRecord: _replay_broker_change,
    md.UnregisterBrokerRecord: _replay_unregister_broker,
    md.FenceBrokerRecord: _replay_fence,
    md.UnfenceBrokerRecord: _replay_unfence,
    md.RegisterControllerRecord: _replay_register_controller,
    md.ConfigRecord: _replay_config,
    md.FeatureLevelRecord: _replay_feature_level,
    md.ProducerIdsRecord: _replay_producer_ids,
    md.AccessControlEntryRecord: _replay_acl,
    md.RemoveAccessControlEntryRecord: _replay_remove_acl,
    md.ClientQuotaRecord: _replay_quota,
    md.UserScramCredentialRecord: _replay_scram,
    md.RemoveUserScramCredentialRecord: _replay_remove_scram,
    md.DelegationTokenRecord: _replay_token,
    md.RemoveDelegationTokenRecord: _replay_remove_token,
    md.ZkMigrationStateRecord: _replay_zk_migration,
    md.NoOpRecord: _replay_nothing,
    md.BeginTransactionRecord: _replay_nothing,
    md.EndTransactionRecord: _replay_nothing,
    md.AbortTransactionRecord: _replay_nothing,
}
