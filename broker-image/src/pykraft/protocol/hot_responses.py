"""The answers that are hot or large, encoded by hand from plain tuples.

Byte for byte what the composed writers would give. A topic is a tuple (name, id, partitions), of
which each version uses the name or the id.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from pykraft.protocol.encoding import uvarint

_INT16 = struct.Struct(">h").pack
_INT32 = struct.Struct(">i").pack
_LEADER = struct.Struct(">ii").pack

Leader = tuple[int, int]
# Node id, host, port, rack.
NodeEndpoint = tuple[int, str, int, str | None]


class ProducePartitionReply(NamedTuple):
    # Also a method of tuples, which nobody calls on a reply.
    index: int  # type: ignore[assignment]
    error: int
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    error_message: str | None = None
    # Id and epoch, where the client asked one that is not the leader (KIP-951).
    current_leader: Leader | None = None
    # (index in the batch, message) of the records that were the reason of a refusal.
    record_errors: Sequence[tuple[int, str | None]] = ()


ProduceTopicReply = tuple[str | None, bytes | None, Sequence[ProducePartitionReply]]

_PRODUCE_3 = struct.Struct(">ihqq").pack
_PRODUCE_5 = struct.Struct(">ihqqq").pack
# With no record errors and a null message, which is nearly every answer.
_PRODUCE_8_PLAIN = struct.Struct(">ihqqqih").pack
_PRODUCE_9_PLAIN = struct.Struct(">ihqqqBBB").pack


def encode_produce_response(
    version: int,
    topics: Sequence[ProduceTopicReply],
    throttle_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """Versions 3 to 13."""
    if version < 9:
        return _produce_classic(version, topics, throttle_ms)
    pieces = [uvarint(len(topics) + 1)]
    for name, topic_id, partitions in topics:
        pieces.append(_flexible_topic_key(version >= 13, name, topic_id))
        pieces.append(uvarint(len(partitions) + 1))
        for reply in partitions:
            index, error, base, append_time, start, message, leader, record_errors = reply
            if message is None and leader is None and not record_errors:
                pieces.append(_PRODUCE_9_PLAIN(index, error, base, append_time, start, 1, 0, 0))
            else:
                pieces.append(_produce_flexible_detailed(version, reply))
        pieces.append(b"\x00")
    pieces.append(_INT32(throttle_ms))
    pieces.append(_node_endpoints_tag(node_endpoints if version >= 10 else ()))
    return b"".join(pieces)


def _produce_flexible_detailed(version: int, reply: ProducePartitionReply) -> bytes:
    index, error, base_offset, append_time, start, message, leader, record_errors = reply
    pieces = [
        _PRODUCE_5(index, error, base_offset, append_time, start),
        uvarint(len(record_errors) + 1),
    ]
    for batch_index, record_message in record_errors:
        pieces += (_INT32(batch_index), compact_string(record_message), b"\x00")
    pieces.append(compact_string(message))
    if leader is None or version < 10:
        pieces.append(b"\x00")
    else:
        pieces += (b"\x01\x00\x09", _LEADER(*leader), b"\x00")
    return b"".join(pieces)


def _produce_classic(version: int, topics: Sequence[ProduceTopicReply], throttle_ms: int) -> bytes:
    pieces = [_INT32(len(topics))]
    for name, _, partitions in topics:
        assert name is not None
        pieces.append(classic_string(name))
        pieces.append(_INT32(len(partitions)))
        for index, error, base, append_time, start, message, _, record_errors in partitions:
            if version < 5:
                pieces.append(_PRODUCE_3(index, error, base, append_time))
            elif version < 8:
                pieces.append(_PRODUCE_5(index, error, base, append_time, start))
            elif message is None and not record_errors:
                pieces.append(_PRODUCE_8_PLAIN(index, error, base, append_time, start, 0, -1))
            else:
                pieces.append(_PRODUCE_5(index, error, base, append_time, start))
                pieces.append(_INT32(len(record_errors)))
                for batch_index, record_message in record_errors:
                    pieces += (_INT32(batch_index), classic_string(record_message))
                pieces.append(classic_string(message))
    pieces.append(_INT32(throttle_ms))
    return b"".join(pieces)


class FetchPartitionReply(NamedTuple):
    index: int  # type: ignore[assignment]
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    # (producer id, first offset), or None for a reader of uncommitted records.
    aborted: Sequence[tuple[int, int]] | None
    preferred_read_replica: int = -1
    # How many bytes of records follow, which the caller sends from the file.
    records_size: int = 0
    # (epoch, end offset) where the log of the replica that fetches diverges from ours.
    diverging: tuple[int, int] | None = None
    current_leader: Leader | None = None
    # (end offset, epoch) of the snapshot to fetch instead.
    snapshot_id: tuple[int, int] | None = None


FetchTopicReply = tuple[str | None, bytes | None, Sequence[FetchPartitionReply]]

_FETCH_HEAD_4 = struct.Struct(">i").pack
_FETCH_HEAD_7 = struct.Struct(">ihi").pack
_FETCH_4 = struct.Struct(">ihqq").pack
_FETCH_5 = struct.Struct(">ihqqq").pack
_ABORTED = struct.Struct(">qq").pack
_EPOCH_END = struct.Struct(">iq").pack
_SNAPSHOT = struct.Struct(">qi").pack
# No aborted transactions: null or empty, then the preferred replica.
_FETCH_12_PLAIN = struct.Struct(">ihqqqBi").pack


def encode_fetch_response(
    version: int,
    error: int,
    session_id: int,
    topics: Sequence[FetchTopicReply],
    *,
    throttle_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> list[bytes]:
    """Versions 4 to 18: the pieces between the records, one more than there are gaps for records.

    Only a partition with `records_size` above 0 makes a gap; others have empty records inline.
    """
    if version < 12:
        return _fetch_classic(version, error, session_id, topics, throttle_ms)
    pieces: list[bytes] = []
    piece = [_FETCH_HEAD_7(throttle_ms, error, session_id), uvarint(len(topics) + 1)]
    for name, topic_id, partitions in topics:
        piece.append(_flexible_topic_key(version >= 13, name, topic_id))
        piece.append(uvarint(len(partitions) + 1))
        for reply in partitions:
            piece.append(_fetch_flexible_head(reply))
            records_size = reply.records_size
            if records_size:
                piece.append(uvarint(records_size + 1))
                pieces.append(b"".join(piece))
                piece = []
            else:
                piece.append(b"\x01")
            piece.append(_fetch_tags(reply))
        piece.append(b"\x00")
    piece.append(_node_endpoints_tag(node_endpoints if version >= 16 else ()))
    pieces.append(b"".join(piece))
    return pieces


def _fetch_flexible_head(reply: FetchPartitionReply) -> bytes:
    index, error, high_watermark, stable, start, aborted, preferred = reply[:7]
    if not aborted:
        count = 0 if aborted is None else 1
        return _FETCH_12_PLAIN(index, error, high_watermark, stable, start, count, preferred)
    return b"".join(
        (
            _FETCH_5(index, error, high_watermark, stable, start),
            uvarint(len(aborted) + 1),
            *(_ABORTED(*transaction) + b"\x00" for transaction in aborted),
            _INT32(preferred),
        )
    )


def _fetch_tags(reply: FetchPartitionReply) -> bytes:
    diverging, leader, snapshot_id = reply[8:]
    if diverging is None and leader is None and snapshot_id is None:
        return b"\x00"
    tags = []
    if diverging is not None:
        tags.append(b"\x00\x0d" + _EPOCH_END(*diverging) + b"\x00")
    if leader is not None:
        tags.append(b"\x01\x09" + _LEADER(*leader) + b"\x00")
    if snapshot_id is not None:
        tags.append(b"\x02\x0d" + _SNAPSHOT(*snapshot_id) + b"\x00")
    return uvarint(len(tags)) + b"".join(tags)


def _fetch_classic(
    version: int, error: int, session_id: int, topics: Sequence[FetchTopicReply], throttle_ms: int
) -> list[bytes]:
    pieces: list[bytes] = []
    piece = [_INT32(throttle_ms)]
    if version >= 7:
        piece = [_FETCH_HEAD_7(throttle_ms, error, session_id)]
    piece.append(_INT32(len(topics)))
    for name, _, partitions in topics:
        assert name is not None
        piece.append(classic_string(name))
        piece.append(_INT32(len(partitions)))
        for reply in partitions:
            piece.append(_fetch_classic_head(version, reply))
            piece.append(_INT32(reply.records_size))
            if reply.records_size:
                pieces.append(b"".join(piece))
                piece = []
    pieces.append(b"".join(piece))
    return pieces


def _fetch_classic_head(version: int, reply: FetchPartitionReply) -> bytes:
    index, error, high_watermark, stable, start, aborted, preferred = reply[:7]
    if version >= 5:
        head = _FETCH_5(index, error, high_watermark, stable, start)
    else:
        head = _FETCH_4(index, error, high_watermark, stable)
    transactions = aborted or ()
    count = _INT32(-1 if aborted is None else len(transactions))
    head += count + b"".join(_ABORTED(*transaction) for transaction in transactions)
    return head + _INT32(preferred) if version >= 11 else head


# (index, error, timestamp, offset, leader epoch)
OffsetReply = tuple[int, int, int, int, int]

_OFFSET = struct.Struct(">ihqq").pack
_OFFSET_4 = struct.Struct(">ihqqi").pack
_OFFSET_6 = struct.Struct(">ihqqiB").pack


def encode_list_offsets_response(
    version: int, topics: Sequence[tuple[str, Sequence[OffsetReply]]], throttle_ms: int = 0
) -> bytes:
    """Versions 1 to 11."""
    pieces = [] if version < 2 else [_INT32(throttle_ms)]
    if version >= 6:
        pieces.append(uvarint(len(topics) + 1))
        for name, partitions in topics:
            pieces += (compact_string(name), uvarint(len(partitions) + 1))
            pieces += [_OFFSET_6(*reply, 0) for reply in partitions]
            pieces.append(b"\x00")
        pieces.append(b"\x00")
        return b"".join(pieces)
    pieces.append(_INT32(len(topics)))
    for name, partitions in topics:
        pieces += (classic_string(name), _INT32(len(partitions)))
        if version >= 4:
            pieces += [_OFFSET_4(*reply) for reply in partitions]
        else:
            pieces += [_OFFSET(*reply[:4]) for reply in partitions]
    return b"".join(pieces)


def compact_string(text: str | None) -> bytes:
    if text is None:
        return b"\x00"
    encoded = text.encode()
    return uvarint(len(encoded) + 1) + encoded


def classic_string(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    encoded = text.encode()
    return _INT16(len(encoded)) + encoded


def _flexible_topic_key(by_id: bool, name: str | None, topic_id: bytes | None) -> bytes:
    if by_id:
        assert topic_id is not None
        return topic_id
    assert name is not None
    return compact_string(name)


def _node_endpoints_tag(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """The tag section of a response whose tag 0 says where the leaders are (KIP-951)."""
    if not endpoints:
        return b"\x00"
    pieces = [uvarint(len(endpoints) + 1)]
    for node_id, host, port, rack in endpoints:
        pieces += (_INT32(node_id), compact_string(host), _INT32(port), compact_string(rack))
        pieces.append(b"\x00")
    body = b"".join(pieces)
    return b"\x01\x00" + uvarint(len(body)) + body
