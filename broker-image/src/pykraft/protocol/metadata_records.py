"""The records of `__cluster_metadata`, as of Kafka 4.3.

A record in the log is framed: the version of the frame, the key of the record, its version, and
the body. Names are Kafka's, in snake case.

Kafka writes the lowest version that carries what a record says: PartitionChangeRecord 2 only with
the feature eligible.leader.replicas.version, BrokerRegistrationChangeRecord 0 to fence. Which it is
belongs to whoever writes the record, so `encode_record` takes the version.
"""

# ruff: noqa: RUF009 (`wire` is dataclasses.field with our metadata)

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import Buffer

from pykraft.ids import Uuid
from pykraft.protocol.decoding import decode_struct
from pykraft.protocol.encoding import encode_struct, uvarint
from pykraft.protocol.errors import ProtocolError
from pykraft.protocol.readers import BAD_BYTES, read_uvarint
from pykraft.protocol.typed_structs import typed_struct, wire

_FRAME_VERSION = 1


class MetadataRecord:
    """What all records have. `__version__` is the newest version that we know."""

    __slots__ = ()
    __record_key__: ClassVar[int]
    __version__: ClassVar[int] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A listener of a broker or controller. The protocol is 0 PLAINTEXT, 1 SSL, 2/3 SASL_*."""

    name: str = wire("string")
    host: str = wire("string")
    port: int = wire("uint16")
    security_protocol: int = wire("int16")


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportedFeature:
    name: str = wire("string")
    min_supported_version: int = wire("int16")
    max_supported_version: int = wire("int16")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecord(MetadataRecord):
    __record_key__ = 0
    __version__ = 4

    broker_id: int = wire("int32")
    is_migrating_zk_broker: bool = wire("bool", False, since=2)
    incarnation_id: Uuid = wire("uuid")
    broker_epoch: int = wire("int64")
    end_points: tuple[Endpoint, ...] = wire(Endpoint)
    features: tuple[SupportedFeature, ...] = wire(SupportedFeature)
    rack: str | None = wire("string")
    fenced: bool = wire("bool", True)
    in_controlled_shutdown: bool = wire("bool", False, since=1)
    log_dirs: tuple[Uuid, ...] = wire("uuid", (), since=3, tag=0)
    cordoned_log_dirs: tuple[Uuid, ...] | None = wire("uuid", None, since=4, tag=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRecord(MetadataRecord):
    __record_key__ = 1

    broker_id: int = wire("int32")
    broker_epoch: int = wire("int64")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord(MetadataRecord):
    __record_key__ = 2

    name: str = wire("string")
    topic_id: Uuid = wire("uuid")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord(MetadataRecord):
    __record_key__ = 3
    __version__ = 2

    partition_id: int = wire("int32", -1)
    topic_id: Uuid = wire("uuid")
    replicas: tuple[int, ...] = wire("int32")
    isr: tuple[int, ...] = wire("int32")
    removing_replicas: tuple[int, ...] = wire("int32", ())
    adding_replicas: tuple[int, ...] = wire("int32", ())
    leader: int = wire("int32", -1)
    # 0 recovered, 1 recovering after an unclean election.
    leader_recovery_state: int = wire("int8", 0, tag=0)
    leader_epoch: int = wire("int32", -1)
    partition_epoch: int = wire("int32", -1)
    directories: tuple[Uuid, ...] = wire("uuid", (), since=1)
    eligible_leader_replicas: tuple[int, ...] | None = wire("int32", None, since=2, tag=1)
    last_known_elr: tuple[int, ...] | None = wire("int32", None, since=2, tag=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord(MetadataRecord):
    """A null value deletes the configuration."""

    __record_key__ = 4

    resource_type: int = wire("int8")
    resource_name: str = wire("string")
    name: str = wire("string")
    value: str | None = wire("string")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecord(MetadataRecord):
    """What has no value here has not changed: None, -2 for the leader, -1 for the recovery."""

    __record_key__ = 5
    __version__ = 2

    partition_id: int = wire("int32", -1)
    topic_id: Uuid = wire("uuid")
    isr: tuple[int, ...] | None = wire("int32", None, tag=0)
    leader: int = wire("int32", -2, tag=1)
    replicas: tuple[int, ...] | None = wire("int32", None, tag=2)
    removing_replicas: tuple[int, ...] | None = wire("int32", None, tag=3)
    adding_replicas: tuple[int, ...] | None = wire("int32", None, tag=4)
    leader_recovery_state: int = wire("int8", -1, tag=5)
    eligible_leader_replicas: tuple[int, ...] | None = wire("int32", None, since=2, tag=6)
    last_known_elr: tuple[int, ...] | None = wire("int32", None, since=2, tag=7)
    directories: tuple[Uuid, ...] | None = wire("uuid", None, since=1, tag=8)


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceBrokerRecord(MetadataRecord):
    __record_key__ = 7

    id: int = wire("int32")
    epoch: int = wire("int64")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfenceBrokerRecord(MetadataRecord):
    __record_key__ = 8

    id: int = wire("int32")
    epoch: int = wire("int64")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord(MetadataRecord):
    __record_key__ = 9

    topic_id: Uuid = wire("uuid")


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationTokenRecord(MetadataRecord):
    __record_key__ = 10

    owner: str = wire("string")
    requester: str = wire("string")
    renewers: tuple[str, ...] = wire("string")
    issue_timestamp: int = wire("int64")
    max_timestamp: int = wire("int64")
    expiration_timestamp: int = wire("int64")
    token_id: str = wire("string")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserScramCredentialRecord(MetadataRecord):
    __record_key__ = 11

    name: str = wire("string")
    mechanism: int = wire("int8")
    salt: bytes = wire("bytes")
    stored_key: bytes = wire("bytes")
    server_key: bytes = wire("bytes")
    iterations: int = wire("int32")


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelRecord(MetadataRecord):
    __record_key__ = 12

    name: str = wire("string")
    feature_level: int = wire("int16")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEntity:
    """A null name is the default of its type."""

    entity_type: str = wire("string")
    entity_name: str | None = wire("string")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotaRecord(MetadataRecord):
    __record_key__ = 14

    entity: tuple[QuotaEntity, ...] = wire(QuotaEntity)
    key: str = wire("string")
    value: float = wire("float64")
    remove: bool = wire("bool")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsRecord(MetadataRecord):
    __record_key__ = 15

    broker_id: int = wire("int32")
    broker_epoch: int = wire("int64", -1)
    next_producer_id: int = wire("int64")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationChangeRecord(MetadataRecord):
    """`fenced` and `in_controlled_shutdown`: 0 unchanged, 1 now so, and `fenced` -1 unfenced."""

    __record_key__ = 17
    __version__ = 3

    broker_id: int = wire("int32")
    broker_epoch: int = wire("int64")
    fenced: int = wire("int8", 0, tag=0)
    in_controlled_shutdown: int = wire("int8", 0, since=1, tag=1)
    log_dirs: tuple[Uuid, ...] = wire("uuid", (), since=2, tag=2)
    cordoned_log_dirs: tuple[Uuid, ...] | None = wire("uuid", None, since=3, tag=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessControlEntryRecord(MetadataRecord):
    __record_key__ = 18

    id: Uuid = wire("uuid")
    resource_type: int = wire("int8")
    resource_name: str = wire("string")
    pattern_type: int = wire("int8")
    principal: str = wire("string")
    host: str = wire("string")
    operation: int = wire("int8")
    permission_type: int = wire("int8")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveAccessControlEntryRecord(MetadataRecord):
    __record_key__ = 19

    id: Uuid = wire("uuid")


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOpRecord(MetadataRecord):
    __record_key__ = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ZkMigrationStateRecord(MetadataRecord):
    """Only in logs that Kafka 3 began."""

    __record_key__ = 21

    zk_migration_state: int = wire("int8")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveUserScramCredentialRecord(MetadataRecord):
    __record_key__ = 22

    name: str = wire("string")
    mechanism: int = wire("int8")


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginTransactionRecord(MetadataRecord):
    __record_key__ = 23

    name: str | None = wire("string", None, tag=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionRecord(MetadataRecord):
    __record_key__ = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortTransactionRecord(MetadataRecord):
    __record_key__ = 25

    reason: str | None = wire("string", None, tag=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveDelegationTokenRecord(MetadataRecord):
    __record_key__ = 26

    token_id: str = wire("string")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterControllerRecord(MetadataRecord):
    __record_key__ = 27

    controller_id: int = wire("int32")
    incarnation_id: Uuid = wire("uuid")
    zk_migration_ready: bool = wire("bool", False)
    end_points: tuple[Endpoint, ...] = wire(Endpoint)
    features: tuple[SupportedFeature, ...] = wire(SupportedFeature)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearElrRecord(MetadataRecord):
    """An empty name clears the eligible leader replicas of all topics."""

    __record_key__ = 28

    topic_name: str = wire("string")


# Kafka 4.3 has no record with the keys 6, 13 and 16.
RECORDS: dict[int, type[MetadataRecord]] = {
    record.__record_key__: record
    for record in (
        RegisterBrokerRecord, UnregisterBrokerRecord, TopicRecord, PartitionRecord, ConfigRecord,
        PartitionChangeRecord, FenceBrokerRecord, UnfenceBrokerRecord, RemoveTopicRecord,
        DelegationTokenRecord, UserScramCredentialRecord, FeatureLevelRecord, ClientQuotaRecord,
        ProducerIdsRecord, BrokerRegistrationChangeRecord, AccessControlEntryRecord,
        RemoveAccessControlEntryRecord, NoOpRecord, ZkMigrationStateRecord,
        RemoveUserScramCredentialRecord, BeginTransactionRecord, EndTransactionRecord,
        AbortTransactionRecord, RemoveDelegationTokenRecord, RegisterControllerRecord,
        ClearElrRecord,
    )
}  # fmt: skip


def encode_record(record: MetadataRecord, version: int | None = None) -> bytes:
    """In the newest version unless told. Fields newer than `version` are left out."""
    entity = type(record)
    if version is None:
        version = entity.__version__
    assert 0 <= version <= entity.__version__
    head = bytes((_FRAME_VERSION,)) + uvarint(entity.__record_key__) + uvarint(version)
    return head + encode_struct(typed_struct(entity, version), record)


def decode_record(value: Buffer) -> MetadataRecord:
    """ProtocolError for a record, or a version of one, that Kafka 4.3 does not know."""
    buffer = memoryview(value)
    try:
        frame_version, offset = read_uvarint(buffer, 0)
        key, offset = read_uvarint(buffer, offset)
        version, offset = read_uvarint(buffer, offset)
    except BAD_BYTES as error:
        raise ProtocolError("metadata record ends inside of its frame") from error
    if frame_version != _FRAME_VERSION:
        raise ProtocolError(f"metadata record with frame version {frame_version}")
    entity = RECORDS.get(key)
    if entity is None or version > entity.__version__:
        raise ProtocolError(f"metadata record key {key} version {version} is not known")
    record: MetadataRecord
    record, end = decode_struct(typed_struct(entity, version), buffer, offset)
    if end != len(buffer):
        raise ProtocolError(f"{len(buffer) - end} bytes follow a {entity.__name__}")
    return record
