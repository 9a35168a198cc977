"""Records on their way to the log and out of it: versions, transactions, and a whole image.

A record is written in the version that the finalized metadata.version allows, since a broker of
that level must be able to read it.
"""

from collections.abc import Iterable, Iterator, Mapping

from pykraft.core.controller.image import (
    METADATA_VERSION,
    BrokerImage,
    ControllerImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from pykraft.protocol import metadata_records as md
from pykraft.protocol.metadata_records import MetadataRecord

# The metadata.version levels from which Kafka knows a thing; names as Kafka gives them.
MV_3_4_IV0_MIGRATION = 8
MV_3_6_IV0_NO_BUMP_ON_SHRINK = 12
MV_3_6_IV1_TRANSACTIONS = 13
MV_3_7_IV0_CONTROLLER_REGISTRATION = 15
MV_3_7_IV2_DIRECTORIES = 17
MV_4_0_IV1_ELR = 23
MV_4_3_IV0_CORDONED = 30

# An operation makes at most so many records, and a batch holds at most so many (Kafka's bounds).
RECORDS_PER_OPERATION_MAX = 10_000


def version_of(record: MetadataRecord, metadata_version: int) -> int:
    if isinstance(record, md.PartitionRecord | md.PartitionChangeRecord):
        if metadata_version >= MV_4_0_IV1_ELR:
            return 2
        return 1 if metadata_version >= MV_3_7_IV2_DIRECTORIES else 0
    if isinstance(record, md.RegisterBrokerRecord):
        if metadata_version >= MV_4_3_IV0_CORDONED:
            return 4
        if metadata_version >= MV_3_7_IV2_DIRECTORIES:
            return 3
        return 2 if metadata_version >= MV_3_4_IV0_MIGRATION else 1
    if isinstance(record, md.BrokerRegistrationChangeRecord):
        if record.cordoned_log_dirs is not None:
            return 3
        if record.log_dirs:
            return 2
        return 1 if record.in_controlled_shutdown else 0
    return 0


class Transactions:
    """Holds back the records of a metadata transaction until its end; drops them if it aborts."""

    def __init__(self) -> None:
        self.pending: list[MetadataRecord] | None = None

    @property
    def is_open(self) -> bool:
        return self.pending is not None

    def effective(self, records: Iterable[MetadataRecord]) -> list[MetadataRecord]:
        """The records that count from now on, in order; the marks themselves are left out."""
        effective: list[MetadataRecord] = []
        for record in records:
            if isinstance(record, md.BeginTransactionRecord):
                assert self.pending is None, "a metadata transaction begins inside another"
                self.pending = []
            elif isinstance(record, md.EndTransactionRecord):
                assert self.pending is not None, "a metadata transaction ends that never began"
                effective += self.pending
                self.pending = None
            elif isinstance(record, md.AbortTransactionRecord):
                self.pending = None
            elif self.pending is not None:
                self.pending.append(record)
            else:
                effective.append(record)
        return effective


def snapshot_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    """The records that make this image again, in Kafka's order: what is needed comes first."""
    levels = dict(image.features)
    if METADATA_VERSION in levels:
        yield feature_record(METADATA_VERSION, levels.pop(METADATA_VERSION))
    for name, level in sorted(levels.items()):
        yield feature_record(name, level)
    if image.zk_migration_state is not None:
        yield md.ZkMigrationStateRecord(zk_migration_state=image.zk_migration_state)
    for _, broker in sorted(image.brokers.items()):
        yield broker_record(broker)
    for _, controller in sorted(image.controllers.items()):
        yield controller_record(controller)
    for topic in image.topics.values():
        yield from _topic_records(topic, image.metadata_version)
    for (kind, name), values in image.configs.items():
        for key, value in values.items():
            yield config_record(kind, name, key, value)
    yield from _quota_records(image)
    if image.producer_ids is not None:
        yield image.producer_ids
    yield from image.acls.values()
    yield from image.scram.values()
    yield from image.tokens.values()


def _topic_records(topic: TopicImage, metadata_version: int) -> Iterator[MetadataRecord]:
    yield md.TopicRecord(name=topic.name, topic_id=topic.id)
    for index, partition in topic.partitions.items():
        yield partition_record(topic, index, partition, metadata_version)


def partition_record(
    topic: TopicImage, index: int, partition: PartitionImage, metadata_version: int
) -> md.PartitionRecord:
    knows_directories = metadata_version >= MV_3_7_IV2_DIRECTORIES
    return md.PartitionRecord(
        partition_id=index,
        topic_id=topic.id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing,
        adding_replicas=partition.adding,
        leader=partition.leader,
        leader_recovery_state=partition.recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories if knows_directories else (),
        eligible_leader_replicas=partition.elr or None,
        last_known_elr=partition.last_known_elr or None,
    )


def broker_record(broker: BrokerImage) -> md.RegisterBrokerRecord:
    return md.RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation,
        broker_epoch=broker.epoch,
        end_points=broker.endpoints,
        features=supported_features(broker.features),
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.log_dirs,
        cordoned_log_dirs=broker.cordoned_log_dirs,
    )


def controller_record(controller: ControllerImage) -> md.RegisterControllerRecord:
    return md.RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=controller.endpoints,
        features=supported_features(controller.features),
    )


def _quota_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    for entity, values in image.quotas.items():
        parts = tuple(md.QuotaEntity(entity_type=kind, entity_name=name) for kind, name in entity)
        for key, value in values.items():
            yield md.ClientQuotaRecord(entity=parts, key=key, value=value, remove=False)


def feature_record(name: str, level: int) -> md.FeatureLevelRecord:
    return md.FeatureLevelRecord(name=name, feature_level=level)


def config_record(kind: int, resource: str, name: str, value: str | None) -> md.ConfigRecord:
    return md.ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)


def supported_features(
    ranges: Mapping[str, tuple[int, int]],
) -> tuple[md.SupportedFeature, ...]:
    return tuple(
        md.SupportedFeature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in ranges.items()
    )
