"""Produce and Fetch, decoded by hand: they are nearly all that a busy node is asked.

No object is made per field, and records are views of the buffer. Both classic and flexible
encodings are checked as the composed readers check theirs.
"""

import struct
from typing import NamedTuple

from pykraft.ids import ZERO_UUID
from pykraft.protocol.errors import ProtocolError
from pykraft.protocol.hot_fields import (
    read_classic_count,
    read_classic_string,
    read_compact_count,
    read_compact_string,
    read_int32s,
    read_uuid,
    require_classic_string,
    require_compact_string,
)
from pykraft.protocol.readers import BAD_BYTES, Budget, read_tag, read_uvarint, skip_tags

_INT32 = struct.Struct(">i").unpack_from
_INT32_PAIR = struct.Struct(">ii").unpack_from
_ACKS_TIMEOUT = struct.Struct(">hi").unpack_from

_INT64_MAX = (1 << 63) - 1

# (name, id, partitions): a topic has a name in older and an id in newer versions.
ProduceTopic = tuple[str | None, bytes | None, list[tuple[int, memoryview | None]]]


class ProduceRequest:
    __slots__ = ("acks", "timeout_ms", "topics", "transactional_id")

    def __init__(
        self, acks: int, timeout_ms: int, transactional_id: str | None, topics: list[ProduceTopic]
    ) -> None:
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.transactional_id = transactional_id
        self.topics = topics


def decode_produce(version: int, buffer: memoryview, offset: int) -> ProduceRequest:
    """Versions 3 to 13. The records are views of `buffer`: copy what outlives it."""
    try:
        if version >= 9:
            return _produce_flexible(version >= 13, buffer, offset)
        return _produce_classic(buffer, offset)
    except BAD_BYTES as error:
        raise ProtocolError(f"Produce is cut short or malformed: {error}") from error


def _produce_flexible(by_id: bool, buffer: memoryview, offset: int) -> ProduceRequest:
    transactional_id = None
    if buffer[offset] == 0:
        offset += 1
    else:
        transactional_id, offset = read_compact_string(buffer, offset)
    acks, timeout_ms = _ACKS_TIMEOUT(buffer, offset)
    # A topic is at least its empty name, its empty array and its tags.
    count, offset = read_compact_count(buffer, offset + 6, 3)
    topics: list[ProduceTopic] = []
    budget = Budget()
    budget.spend(count)
    for _ in range(count):
        name: str | None = None
        topic_id: bytes | None = None
        if by_id:
            topic_id, offset = read_uuid(buffer, offset)
        else:
            name, offset = require_compact_string(buffer, offset)
        partition_count, offset = read_compact_count(buffer, offset, 6)
        budget.spend(partition_count)
        partitions, offset = _flexible_records(buffer, offset, partition_count, budget)
        topics.append((name, topic_id, partitions))
    if buffer[offset]:
        skip_tags(buffer, offset, budget)
    return ProduceRequest(acks, timeout_ms, transactional_id, topics)


def _flexible_records(
    buffer: memoryview, offset: int, count: int, budget: Budget
) -> tuple[list[tuple[int, memoryview | None]], int]:
    """The partitions of a topic, and the offset after the topic's tags."""
    size = len(buffer)
    partitions: list[tuple[int, memoryview | None]] = []
    for _ in range(count):
        (index,) = _INT32(buffer, offset)
        offset += 4
        # Most batches are longer than 127 and shorter than 2 MiB: two or three bytes.
        length = buffer[offset]
        if length < 0x80:
            offset += 1
        elif (second := buffer[offset + 1]) < 0x80:
            length = length & 0x7F | second << 7
            offset += 2
        elif (third := buffer[offset + 2]) < 0x80:
            length = length & 0x7F | (second & 0x7F) << 7 | third << 14
            offset += 3
        else:
            length, offset = read_uvarint(buffer, offset)
        if length == 0:
            partitions.append((index, None))
        else:
            end = offset + length - 1
            if end >= size:
                raise ProtocolError(f"records of {length - 1} bytes end after the message")
            partitions.append((index, buffer[offset:end]))
            offset = end
        offset = skip_tags(buffer, offset, budget) if buffer[offset] else offset + 1
    return partitions, skip_tags(buffer, offset, budget) if buffer[offset] else offset + 1


def _produce_classic(buffer: memoryview, offset: int) -> ProduceRequest:
    transactional_id, offset = read_classic_string(buffer, offset)
    acks, timeout_ms = _ACKS_TIMEOUT(buffer, offset)
    count, offset = read_classic_count(buffer, offset + 6, 6)
    size = len(buffer)
    topics: list[ProduceTopic] = []
    budget = Budget()
    budget.spend(count)
    for _ in range(count):
        name, offset = require_classic_string(buffer, offset)
        partition_count, offset = read_classic_count(buffer, offset, 8)
        budget.spend(partition_count)
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(partition_count):
            index, length = _INT32_PAIR(buffer, offset)
            offset += 8
            if length < 0:
                partitions.append((index, None))
                continue
            end = offset + length
            if end > size:
                raise ProtocolError(f"records of {length} bytes end after the message")
            partitions.append((index, buffer[offset:end]))
            offset = end
        topics.append((name, None, partitions))
    return ProduceRequest(acks, timeout_ms, transactional_id, topics)


class FetchPartition(NamedTuple):
    """What a version lacks has Kafka's default."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    partition_max_bytes: int
    replica_directory_id: bytes = ZERO_UUID
    high_watermark: int = _INT64_MAX


FetchTopic = tuple[str | None, bytes | None, list[FetchPartition]]
ForgottenTopic = tuple[str | None, bytes | None, list[int]]


class FetchRequest:
    __slots__ = (
        "cluster_id",
        "forgotten",
        "isolation_level",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "rack_id",
        "replica_epoch",
        "replica_id",
        "session_epoch",
        "session_id",
        "topics",
    )

    def __init__(self, head: tuple[int, ...], topics: list[FetchTopic]) -> None:
        (
            self.replica_id,
            self.max_wait_ms,
            self.min_bytes,
            self.max_bytes,
            self.isolation_level,
            self.session_id,
            self.session_epoch,
        ) = head
        self.topics = topics
        self.replica_epoch = -1
        self.forgotten: list[ForgottenTopic] = []
        self.rack_id = ""
        self.cluster_id: str | None = None


# Replica id, wait, min and max bytes, isolation level; from 7 on session id and epoch; from 15 on
# the replica id is a tag.
_FETCH_HEADS = {
    version: struct.Struct(">iiiib" if version < 7 else ">iiiibii" if version < 15 else ">iiibii")
    for version in range(4, 19)
}
_REPLICA_STATE = struct.Struct(">iq")

_PARTITION_4 = struct.Struct(">iqi")
_PARTITION_5 = struct.Struct(">iqqi")
_PARTITION_9 = struct.Struct(">iiqqi")
_PARTITION_12 = struct.Struct(">iiqiqi")


def decode_fetch(version: int, buffer: memoryview, offset: int) -> FetchRequest:
    """Versions 4 to 18."""
    try:
        layout = _FETCH_HEADS[version]
        head = layout.unpack_from(buffer, offset)
        offset += layout.size
        if version >= 15:
            head = (-1, *head)
        elif version < 7:
            head = (*head, 0, -1)
        if version >= 12:
            return _fetch_flexible(version, head, buffer, offset)
        return _fetch_classic(version, head, buffer, offset)
    except BAD_BYTES as error:
        raise ProtocolError(f"Fetch is cut short or malformed: {error}") from error


def _fetch_flexible(
    version: int, head: tuple[int, ...], buffer: memoryview, offset: int
) -> FetchRequest:
    by_id = version >= 13
    count, offset = read_compact_count(buffer, offset, 3)
    topics: list[FetchTopic] = []
    budget = Budget()
    budget.spend(count)
    for _ in range(count):
        name, topic_id, offset = _topic_key(by_id, buffer, offset)
        partition_count, offset = read_compact_count(buffer, offset, _PARTITION_12.size + 1)
        budget.spend(partition_count)
        partitions: list[FetchPartition] = []
        for _ in range(partition_count):
            partition = _PARTITION_12.unpack_from(buffer, offset)
            offset += 32
            if buffer[offset]:
                tags, offset = _partition_tags(version, buffer, offset, budget)
                partitions.append(FetchPartition._make((*partition, *tags)))
            else:
                offset += 1
                partitions.append(FetchPartition(*partition))
        offset = skip_tags(buffer, offset, budget)
        topics.append((name, topic_id, partitions))
    request = FetchRequest(head, topics)
    request.forgotten, offset = _forgotten_flexible(by_id, buffer, offset, budget)
    request.rack_id, offset = require_compact_string(buffer, offset)
    _read_fetch_tags(version, request, buffer, offset, budget)
    return request


def _partition_tags(
    version: int, buffer: memoryview, offset: int, budget: Budget
) -> tuple[tuple[bytes, int], int]:
    """Directory id (from 17 on) and high watermark (18)."""
    directory_id: bytes = ZERO_UUID
    high_watermark = _INT64_MAX
    count, offset = read_uvarint(buffer, offset)
    budget.spend(count)
    for _ in range(count):
        tag, start, end = read_tag(buffer, offset)
        if tag == 0 and version >= 17:
            directory_id, offset = read_uuid(buffer, start)
        elif tag == 1 and version >= 18:
            high_watermark = int.from_bytes(buffer[start : start + 8], "big", signed=True)
            offset = start + 8
        else:
            offset = end
        if offset != end:
            raise ProtocolError(f"tag {tag} of a Fetch partition has the wrong size")
    return (directory_id, high_watermark), offset


def _read_fetch_tags(
    version: int, request: FetchRequest, buffer: memoryview, offset: int, budget: Budget
) -> None:
    """Cluster id, and from 15 on who the replica is."""
    count, offset = read_uvarint(buffer, offset)
    budget.spend(count)
    for _ in range(count):
        tag, start, end = read_tag(buffer, offset)
        if tag == 0:
            request.cluster_id, offset = read_compact_string(buffer, start)
        elif tag == 1 and version >= 15:
            request.replica_id, request.replica_epoch = _REPLICA_STATE.unpack_from(buffer, start)
            offset = skip_tags(buffer, start + _REPLICA_STATE.size, budget)
        else:
            offset = end
        if offset != end:
            raise ProtocolError(f"tag {tag} of a Fetch has the wrong size")


def _forgotten_flexible(
    by_id: bool, buffer: memoryview, offset: int, budget: Budget
) -> tuple[list[ForgottenTopic], int]:
    count, offset = read_compact_count(buffer, offset, 3)
    topics: list[ForgottenTopic] = []
    budget.spend(count)
    for _ in range(count):
        name, topic_id, offset = _topic_key(by_id, buffer, offset)
        partition_count, offset = read_compact_count(buffer, offset, 4)
        budget.spend(partition_count)
        partitions, offset = read_int32s(buffer, offset, partition_count)
        offset = skip_tags(buffer, offset, budget)
        topics.append((name, topic_id, partitions))
    return topics, offset


def _fetch_classic(
    version: int, head: tuple[int, ...], buffer: memoryview, offset: int
) -> FetchRequest:
    layout = _PARTITION_9 if version >= 9 else _PARTITION_5 if version >= 5 else _PARTITION_4
    count, offset = read_classic_count(buffer, offset, 6)
    topics: list[FetchTopic] = []
    budget = Budget()
    budget.spend(count)
    for _ in range(count):
        name, offset = require_classic_string(buffer, offset)
        partition_count, offset = read_classic_count(buffer, offset, layout.size)
        budget.spend(partition_count)
        end = offset + layout.size * partition_count
        rows = layout.iter_unpack(buffer[offset:end])
        topics.append((name, None, [_classic_partition(version, row) for row in rows]))
        offset = end
    request = FetchRequest(head, topics)
    if version >= 7:
        request.forgotten, offset = _forgotten_classic(buffer, offset, budget)
    if version >= 11:
        request.rack_id, offset = require_classic_string(buffer, offset)
    return request


def _classic_partition(version: int, row: tuple[int, ...]) -> FetchPartition:
    if version >= 9:
        partition, epoch, fetch_offset, log_start_offset, max_bytes = row
        return FetchPartition(partition, epoch, fetch_offset, -1, log_start_offset, max_bytes)
    if version >= 5:
        partition, fetch_offset, log_start_offset, max_bytes = row
        return FetchPartition(partition, -1, fetch_offset, -1, log_start_offset, max_bytes)
    partition, fetch_offset, max_bytes = row
    return FetchPartition(partition, -1, fetch_offset, -1, -1, max_bytes)


def _forgotten_classic(
    buffer: memoryview, offset: int, budget: Budget
) -> tuple[list[ForgottenTopic], int]:
    count, offset = read_classic_count(buffer, offset, 6)
    topics: list[ForgottenTopic] = []
    budget.spend(count)
    for _ in range(count):
        name, offset = require_classic_string(buffer, offset)
        partition_count, offset = read_classic_count(buffer, offset, 4)
        budget.spend(partition_count)
        partitions, offset = read_int32s(buffer, offset, partition_count)
        topics.append((name, None, partitions))
    return topics, offset


def _topic_key(
    by_id: bool, buffer: memoryview, offset: int
) -> tuple[str | None, bytes | None, int]:
    if by_id:
        topic_id, offset = read_uuid(buffer, offset)
        return None, topic_id, offset
    name, offset = require_compact_string(buffer, offset)
    return name, None, offset
