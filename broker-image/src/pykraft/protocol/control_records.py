"""The control records that raft writes between those of the metadata, and into snapshots.

Key and value are bytes of a record in a batch with the control bit: the key is a version, always
0, and the type. The first field of every value is the version that the rest is encoded in.
"""

# ruff: noqa: RUF009 (`wire` is dataclasses.field with our metadata)

import struct
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import Buffer

from pykraft.ids import ZERO_UUID, Uuid
from pykraft.protocol.decoding import decode_struct
from pykraft.protocol.encoding import encode_struct
from pykraft.protocol.errors import ProtocolError
from pykraft.protocol.typed_structs import typed_struct, wire

_KEY = struct.Struct(">hh")
_VERSION = struct.Struct(">h")


class ControlRecord:
    """What all have. `__version_max__` is the newest version that Kafka 4.3 knows."""

    __slots__ = ()
    __control_type__: ClassVar[int]
    __version_max__: ClassVar[int] = 0
    # A field of each, so that an older version can be written and what was read is kept.
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionVoter:
    voter_id: int = wire("int32")
    voter_directory_id: Uuid = wire("uuid", ZERO_UUID, since=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChange(ControlRecord):
    """Kafka 4.3 writes version 0 at kraft.version 0 and 1 alike."""

    __control_type__ = 2
    __version_max__ = 1

    version: int = wire("int16", 0)
    leader_id: int = wire("int32")
    voters: tuple[ElectionVoter, ...] = wire(ElectionVoter)
    granting_voters: tuple[ElectionVoter, ...] = wire(ElectionVoter)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotHeader(ControlRecord):
    __control_type__ = 3

    version: int = wire("int16", 0)
    last_contained_log_timestamp: int = wire("int64")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFooter(ControlRecord):
    __control_type__ = 4

    version: int = wire("int16", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class KRaftVersion(ControlRecord):
    __control_type__ = 5

    version: int = wire("int16", 0)
    k_raft_version: int = wire("int16")


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterEndpoint:
    name: str = wire("string")
    host: str = wire("string")
    port: int = wire("uint16")


@dataclass(frozen=True, slots=True, kw_only=True)
class KRaftVersionFeature:
    min_supported_version: int = wire("int16")
    max_supported_version: int = wire("int16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    voter_id: int = wire("int32")
    voter_directory_id: Uuid = wire("uuid")
    endpoints: tuple[VoterEndpoint, ...] = wire(VoterEndpoint)
    k_raft_version_feature: KRaftVersionFeature = wire(KRaftVersionFeature)


@dataclass(frozen=True, slots=True, kw_only=True)
class Voters(ControlRecord):
    __control_type__ = 6

    version: int = wire("int16", 0)
    voters: tuple[Voter, ...] = wire(Voter)


CONTROL_RECORDS: dict[int, type[ControlRecord]] = {
    record.__control_type__: record
    for record in (LeaderChange, SnapshotHeader, SnapshotFooter, KRaftVersion, Voters)
}


def encode_control_record(record: ControlRecord) -> tuple[bytes, bytes]:
    """Key and value."""
    entity = type(record)
    assert 0 <= record.version <= entity.__version_max__
    value = encode_struct(typed_struct(entity, record.version), record)
    return _KEY.pack(0, entity.__control_type__), value


def decode_control_record(key: Buffer, value: Buffer) -> ControlRecord:
    key_view, value_view = memoryview(key), memoryview(value)
    if len(key_view) < _KEY.size or len(value_view) < _VERSION.size:
        raise ProtocolError("control record is cut short")
    _, control_type = _KEY.unpack_from(key_view)
    (version,) = _VERSION.unpack_from(value_view)
    entity = CONTROL_RECORDS.get(control_type)
    if entity is None or not 0 <= version <= entity.__version_max__:
        raise ProtocolError(f"control record type {control_type} version {version} is not known")
    record: ControlRecord
    record, end = decode_struct(typed_struct(entity, version), value_view)
    if end != len(value_view):
        raise ProtocolError(f"{len(value_view) - end} bytes follow a {entity.__name__}")
    return record
