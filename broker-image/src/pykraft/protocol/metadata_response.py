"""The Metadata answer, encoded by hand: with thousands of partitions it is the largest of all."""

import struct
from collections.abc import Sequence

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

_INT16 = struct.Struct(">h").pack
_INT32 = struct.Struct(">i").pack
_PARTITION = struct.Struct(">hii").pack
_PARTITION_7 = struct.Struct(">hiii").pack
# One replica, in sync, none offline: every partition of a cluster that is not replicated.
_PARTITION_SINGLE_9 = struct.Struct(">hiiiBiBiBB").pack


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
    if len(replicas) == 1 and len(isr) == 1 and not offline:
        replica, in_sync = replicas[0], isr[0]
        return _PARTITION_SINGLE_9(error, index, leader, epoch, 2, replica, 2, in_sync, 1, 0)
    return b"".join(
        (
            _PARTITION_7(error, index, leader, epoch),
            _compact_ids(replicas),
            _compact_ids(isr),
            _compact_ids(offline),
            b"\x00",
        )
    )


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


def _compact_ids(ids: Sequence[int]) -> bytes:
    return uvarint(len(ids) + 1) + struct.pack(f">{len(ids)}i", *ids)


def _classic_ids(ids: Sequence[int]) -> bytes:
    return struct.pack(f">i{len(ids)}i", len(ids), *ids)
