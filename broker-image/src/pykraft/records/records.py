"""Records inside a batch: reading them one by one, and building a batch of them.

A record is a length and then attributes (i8, unused), timestamp delta, offset delta, key, value
and headers, every number a zigzag varint.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import crc32c
from typing_extensions import Buffer

from pykraft.records.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    read_header,
)
from pykraft.records.compression import (
    DECOMPRESSED_BYTES_MAX,
    NONE,
    CorruptRecordsError,
    compress,
    decompress,
)

VARINT_BYTES_MAX = 10
Header = tuple[str, bytes | None]


class Record(NamedTuple):
    """`offset` is set when read; `timestamp_ms` None means the batch's, when building."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int | None = None
    offset: int = -1


def write_varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    if 0 <= value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(buffer: bytes, position: int) -> tuple[int, int]:
    """The number and the position after it."""
    value = shift = 0
    for byte in buffer[position : position + VARINT_BYTES_MAX]:
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
    raise CorruptRecordsError("a varint is cut or longer than ten bytes")


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    timestamp_ms: int,
    attributes: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    level: int | None = None,
) -> bytes:
    """A batch with consecutive offsets. The codec is the one in `attributes`."""
    stamps = [timestamp_ms if r.timestamp_ms is None else r.timestamp_ms for r in records]
    base_timestamp = stamps[0] if stamps else timestamp_ms
    payload = b"".join(
        _encode(record, delta, stamp - base_timestamp)
        for delta, (record, stamp) in enumerate(zip(records, stamps, strict=True))
    )
    codec = attributes & CODEC_MASK
    if codec != NONE:
        payload = compress(codec, payload, level)
    header = bytearray(
        HEADER.pack(
            base_offset,
            HEADER_BYTES - LOG_OVERHEAD_BYTES + len(payload),
            leader_epoch,
            MAGIC,
            0,
            attributes,
            len(records) - 1,
            base_timestamp,
            max(stamps, default=timestamp_ms),
            producer_id,
            producer_epoch,
            base_sequence,
            len(records),
        )
    )
    crc = crc32c.crc32c(payload, crc32c.crc32c(header[ATTRIBUTES_AT:]))
    header[17:ATTRIBUTES_AT] = crc.to_bytes(4, "big")
    return bytes(header) + payload


def iterate(batch: Buffer, limit: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """Every record of one batch, decompressed. Raises CorruptRecordsError."""
    view = memoryview(batch)
    header = read_header(view)
    stamped = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    payload = decompress(header.codec, view[HEADER_BYTES : header.size], limit)
    position = 0
    for _ in range(header.count):
        size, start = read_varint(payload, position)
        position = start + size
        if size < 0 or position > len(payload):
            raise CorruptRecordsError(f"a record of {size} bytes, {len(payload) - start} are left")
        record = _decode(payload[start:position], header.base_offset, header.base_timestamp)
        yield record if stamped is None else record._replace(timestamp_ms=stamped)
    if position != len(payload):
        raise CorruptRecordsError(f"{len(payload) - position} bytes after the last record")


def _encode(record: Record, offset_delta: int, timestamp_delta: int) -> bytes:
    parts = [b"\x00", write_varint(timestamp_delta), write_varint(offset_delta)]
    _encode_bytes(parts, record.key)
    _encode_bytes(parts, record.value)
    parts.append(write_varint(len(record.headers)))
    for name, value in record.headers:
        _encode_bytes(parts, name.encode())
        _encode_bytes(parts, value)
    body = b"".join(parts)
    return write_varint(len(body)) + body


def _encode_bytes(parts: list[bytes], value: bytes | None) -> None:
    if value is None:
        parts.append(b"\x01")
    else:
        parts.append(write_varint(len(value)))
        parts.append(value)


def _decode(body: bytes, base_offset: int, base_timestamp: int) -> Record:
    timestamp_delta, position = read_varint(body, 1)
    offset_delta, position = read_varint(body, position)
    key, position = _decode_bytes(body, position)
    value, position = _decode_bytes(body, position)
    count, position = read_varint(body, position)
    # A header has at least two bytes, so that a forged count cannot make us loop.
    if not 0 <= count <= (len(body) - position) // 2:
        raise CorruptRecordsError(f"{count} headers in {len(body) - position} bytes")
    headers = []
    for _ in range(count):
        name, position = _decode_bytes(body, position)
        content, position = _decode_bytes(body, position)
        if name is None:
            raise CorruptRecordsError("a header without a name")
        headers.append((name.decode("utf-8", "replace"), content))
    if position != len(body):
        raise CorruptRecordsError(f"{len(body) - position} bytes after the headers of a record")
    return Record(
        key, value, tuple(headers), base_timestamp + timestamp_delta, base_offset + offset_delta
    )


def _decode_bytes(body: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = read_varint(body, position)
    if size < 0:
        return None, position
    if size > len(body) - position:
        raise CorruptRecordsError(f"a field of {size} bytes, {len(body) - position} are left")
    return body[position : position + size], position + size
