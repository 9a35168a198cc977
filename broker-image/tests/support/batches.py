"""Record batches built by hand, right or deliberately wrong, without pykraft's own code."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import crc32c

_HEADER = struct.Struct(">qiibI")
_CHECKED = struct.Struct(">hiqqqhii")


class PlainRecord(NamedTuple):
    """What a client hands in and gets back."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = -1


def varint(number: int) -> bytes:
    """A zigzag varint, as records use it."""
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number & ~0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _nullable(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def _record(record: PlainRecord, offset_delta: int, timestamp_delta: int) -> bytes:
    body = bytearray(b"\x00")
    body += varint(timestamp_delta) + varint(offset_delta)
    body += _nullable(record.key) + _nullable(record.value)
    body += varint(len(record.headers))
    for name, value in record.headers:
        body += varint(len(name.encode())) + name.encode() + _nullable(value)
    return varint(len(body)) + bytes(body)


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch whose every header field can be set; `with_` makes one that is wrong in one way."""

    records: Sequence[PlainRecord]
    base_offset: int = 0
    leader_epoch: int = -1
    magic: int = 2
    attributes: int = 0
    timestamp_ms: int = 1_700_000_000_000
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    count: int | None = None
    last_offset_delta: int | None = None
    max_timestamp_ms: int | None = None
    crc_error: int = 0
    length_error: int = 0

    def with_(self, **changes: object) -> "Batch":
        return replace(self, **changes)  # type: ignore[arg-type]

    def encode(self) -> bytes:
        times = [r.timestamp_ms if r.timestamp_ms >= 0 else self.timestamp_ms for r in self.records]
        base_time = times[0] if times else self.timestamp_ms
        payload = b"".join(
            _record(record, index, time - base_time)
            for index, (record, time) in enumerate(zip(self.records, times, strict=True))
        )
        size = len(self.records)
        checked = _CHECKED.pack(
            self.attributes,
            size - 1 if self.last_offset_delta is None else self.last_offset_delta,
            base_time,
            max(times, default=base_time)
            if self.max_timestamp_ms is None
            else self.max_timestamp_ms,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            size if self.count is None else self.count,
        )
        checked += payload
        crc = crc32c.crc32c(checked) ^ self.crc_error
        length = len(checked) + 9 + self.length_error
        return _HEADER.pack(self.base_offset, length, self.leader_epoch, self.magic, crc) + checked


def batch_of(*values: bytes, **fields: object) -> Batch:
    """A batch of records with these values and no keys."""
    return Batch([PlainRecord(None, value) for value in values]).with_(**fields)


def base_offsets(records: bytes | memoryview) -> list[int]:
    """The base offsets of the whole batches in a Fetch answer."""
    return [base for base, _ in _walk(records)]


def record_counts(records: bytes | memoryview) -> list[int]:
    return [count for _, count in _walk(records)]


def _walk(records: bytes | memoryview) -> Iterator[tuple[int, int]]:
    at = 0
    while at + 61 <= len(records):
        base, length = struct.unpack_from(">qi", records, at)
        if at + 12 + length > len(records):
            return
        yield base, struct.unpack_from(">i", records, at + 57)[0]
        at += 12 + length


def concatenated(batches: Iterable[Batch]) -> bytes:
    return b"".join(batch.encode() for batch in batches)
