"""The Metadata answer, encoded by hand: with thousands of partitions it is the largest of all."""

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache

from pykraft.protocol.encoding import uvarint
from pykraft.protocol.hot_responses import classic_string, compact_string

# (id, host, port, rack)
BrokerReply = tuple[int, str, int, str | None]
# (error, index, leader, leader epoch, replicas, isr, offline replicas)
PartitionReply = tuple[int, int, int, int, Sequence[int], Sequence[int], Sequence[int]]
# (error, name, id, is internal, partitions, authorized operations)
TopicReply = tuple[int, str | None, bytes, bool, Sequence[PartitionReply], int]

# What Kafka says for "not asked".
NO_OPERATIONS = -(1 << 31)
# A count above it takes more than a byte; Kafka allows no more than a few dozen replicas.
_ONE_BYTE_COUNT_MAX = 126

_INT16 = struct.Struct(">h").pack
_INT32 = struct.Struct(">i").pack
_PARTITION = struct.Struct(">hii").pack
_PARTITION_7 = struct.Struct(">hiii").pack


def encode_metadata_response(
    version: int,
    *,
    brokers: Sequence[BrokerReply],
    cluster_id: str | None,
    controller_id: int,
    topics: Sequence[TopicReply],
    throttle_ms: int = 0,
    cluster_authorized_operations: int = NO_OPERATIONS,
    error: int = 0,
) -> bytes:
    """Versions 0 to 13. A topic without a name, which its error explains, needs version 12."""
    flexible = version >= 9
    string = compact_string if flexible else classic_string
    end = b"\x00" if flexible else b""
    pieces = [_INT32(throttle_ms)] if version >= 3 else []
    pieces.append(_count(flexible, len(brokers)))
    for node_id, host, port, rack in brokers:
        pieces += (_INT32(node_id), string(host), _INT32(port))
        pieces.append((string(rack) if version >= 1 else b"") + end)
    if version >= 2:
        pieces.append(string(cluster_id))
    if version >= 1:
        pieces.append(_INT32(controller_id))
    pieces.append(_count(flexible, len(topics)))
    for topic in topics:
        _add_topic(pieces, version, topic)
    if 8 <= version <= 10:
        pieces.append(_INT32(cluster_authorized_operations))
    if version >= 13:
        pieces.append(_INT16(error))
    pieces.append(end)
    return b"".join(pieces)


def _add_topic(pieces: list[bytes], version: int, topic: TopicReply) -> None:
    error, name, topic_id, is_internal, partitions, authorized_operations = topic
    flexible = version >= 9
    if name is None and version < 12:
        raise ValueError(f"Metadata {version} has no topics without a name")
    pieces.append(_INT16(error))
    pieces.append(compact_string(name) if flexible else classic_string(name))
    if version >= 10:
        pieces.append(topic_id)
    if version >= 1:
        pieces.append(b"\x01" if is_internal else b"\x00")
    pieces.append(_count(flexible, len(partitions)))
    if flexible:
        pieces += [_flexible_partition(partition) for partition in partitions]
    else:
        pieces += [_classic_partition(version, partition) for partition in partitions]
    if version >= 8:
        pieces.append(_INT32(authorized_operations))
    if flexible:
        pieces.append(b"\x00")


def _flexible_partition(partition: PartitionReply) -> bytes:
    error, index, leader, epoch, replicas, isr, offline = partition
    counts = len(replicas), len(isr), len(offline)
    if max(counts) > _ONE_BYTE_COUNT_MAX:
        raise ValueError(f"partition {index} has more than {_ONE_BYTE_COUNT_MAX} replicas")
    pack = _flexible_partition_pack(*counts)
    replica_count, isr_count, offline_count = counts
    return pack(
        error, index, leader, epoch,
        replica_count + 1, *replicas, isr_count + 1, *isr, offline_count + 1, *offline,
        0,
    )  # fmt: skip


# All partitions of a cluster share a few shapes, and one call packs a whole one.
@lru_cache(maxsize=256)
def _flexible_partition_pack(replicas: int, isr: int, offline: int) -> Callable[..., bytes]:
    return struct.Struct(f">hiiiB{replicas}iB{isr}iB{offline}iB").pack


def _classic_partition(version: int, partition: PartitionReply) -> bytes:
    error, index, leader, epoch, replicas, isr, offline = partition
    if version >= 7:
        head = _PARTITION_7(error, index, leader, epoch)
    else:
        head = _PARTITION(error, index, leader)
    head += _classic_ids(replicas) + _classic_ids(isr)
    return head + _classic_ids(offline) if version >= 5 else head


def _count(flexible: bool, count: int) -> bytes:
    return uvarint(count + 1) if flexible else _INT32(count)


def _classic_ids(ids: Sequence[int]) -> bytes:
    return struct.pack(f">i{len(ids)}i", len(ids), *ids)
