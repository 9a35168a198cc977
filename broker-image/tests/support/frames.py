"""Requests of every API and version, with the place of each number and length in their bytes.

kio's dataclasses name the fields; the bytes are made here, independently of pykraft's codec and of
kio's writers, because whoever forges a count must know where it stands.
"""

import dataclasses
import struct
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from batches import batch_of
from kio.index import load_request_schema
from kio.schema.index import api_key_map

CLIENT_ID = "forger"
TOPIC = "forged"
# Stands for the topic's id, which only the node knows; `Frame.with_topic_id` puts that in.
TOPIC_ID = b"id of the topic."
CORRELATION_ID = 0x0C0FFEE0

# The APIs of a single node, with the versions of Kafka 4.3.
SERVED: dict[int, range] = {
    0: range(3, 14),
    1: range(4, 19),
    2: range(1, 12),
    3: range(14),
    18: range(5),
    19: range(2, 8),
    20: range(1, 7),
    21: range(3),
    22: range(6),
    23: range(2, 5),
    32: range(1, 5),
    33: range(3),
    35: range(1, 6),
    37: range(4),
    44: range(2),
    55: range(3),
    57: range(3),
    60: range(3),
    61: range(1),
    74: range(2),
    75: range(1),
}
PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS = 0, 1, 2, 3, 18

_NUMBERS = {
    "bool": ">b",
    "int8": ">b",
    "int16": ">h",
    "int32": ">i",
    "int64": ">q",
    "uint16": ">H",
    "float64": ">d",
    "error_code": ">h",
    "timedelta_i32": ">i",
    "timedelta_i64": ">q",
    "datetime_i64": ">q",
}
# Values with which a request reaches as deep into the node as it can; everything else is zero.
_VALUES: dict[str, Any] = {
    "acks": 1,
    "controller_broker_id": -1,
    "current_leader_epoch": -1,
    "last_fetched_epoch": -1,
    "log_start_offset": -1,
    "max_bytes": 1 << 20,
    "num_partitions": 1,
    "partition_max_bytes": 1 << 20,
    "producer_epoch": -1,
    "producer_id": -1,
    "replica_epoch": -1,
    "replica_id": -1,
    "replication_factor": 1,
    "resource_type": 2,
    "session_epoch": -1,
    "timeout": 1000,
    "timestamp": -1,
    "transactional_id": None,
    "transaction_timeout": 60_000,
    "validate_only": 1,
}


class Mark(NamedTuple):
    """A number in a frame: `kind` is its format, or "compact" for an unsigned varint plus one."""

    path: str
    kind: str
    start: int
    end: int
    # It counts what follows: elements or bytes.
    is_size: bool

    def moved(self, by: int) -> "Mark":
        return self._replace(start=self.start + by, end=self.end + by)


@dataclass(frozen=True, slots=True)
class Frame:
    """One request without the four bytes of its size."""

    api_key: int
    version: int
    data: bytes
    marks: tuple[Mark, ...]

    def __str__(self) -> str:
        return f"{api_key_map[self.api_key]} v{self.version}"

    def sizes(self) -> Iterator[Mark]:
        return (mark for mark in self.marks if mark.is_size)

    def forged(self, mark: Mark, number: int) -> bytes:
        """The same request with another number in one place."""
        return self.data[: mark.start] + _number(mark.kind, number) + self.data[mark.end :]

    def with_topic_id(self, topic_id: bytes) -> "Frame":
        return dataclasses.replace(self, data=self.data.replace(TOPIC_ID, topic_id))


def request(api_key: int, version: int, **values: Any) -> Frame:
    """A request whose arrays all have an element; `values` go to fields of that name anywhere."""
    schema = load_request_schema(api_key, version)
    writer = _Writer({**_VALUES, **values})
    writer.number("api_key", ">h", api_key)
    writer.number("api_version", ">h", version)
    writer.number("correlation_id", ">i", CORRELATION_ID)
    # A classic string also in the flexible header.
    writer.sized("client_id", CLIENT_ID.encode(), ">h")
    if schema.__flexible__:
        writer.data += b"\x00"
    writer.entity(schema, "")
    return Frame(api_key, version, bytes(writer.data), tuple(writer.marks))


def extremes(mark: Mark) -> list[int]:
    """Numbers that a forger would try at this place."""
    if mark.kind == "compact":
        return [0, 1, 127, 10**6, 2**31 - 1, 2**31, 2**32 - 1]
    size = struct.calcsize(mark.kind)
    low, high = -(1 << 8 * size - 1), (1 << 8 * size - 1) - 1
    return [number for number in (low, -2, -1, 0, 127, 10**6, high) if low <= number <= high]


def uvarint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _number(kind: str, number: int) -> bytes:
    return uvarint(number) if kind == "compact" else struct.pack(kind, number)


@dataclass(slots=True)
class _Writer:
    values: dict[str, Any]
    data: bytearray = field(default_factory=bytearray)
    marks: list[Mark] = field(default_factory=list)

    def number(self, path: str, kind: str, number: int, *, is_size: bool = False) -> None:
        start = len(self.data)
        self.data += _number(kind, number)
        self.marks.append(Mark(path, kind, start, len(self.data), is_size))

    def size(self, path: str, kind: str, size: int) -> None:
        self.number(path, kind, size + (kind == "compact"), is_size=True)

    def sized(self, path: str, value: bytes | None, kind: str) -> None:
        self.size(path, kind, -1 if value is None else len(value))
        self.data += value or b""

    def entity(self, schema: Any, path: str) -> None:
        all_fields = dataclasses.fields(schema)
        for each in all_fields:
            if "tag" not in each.metadata:
                self._field(each, schema.__flexible__, f"{path}.{each.name}".lstrip("."))
        if schema.__flexible__:
            tagged = [each for each in all_fields if "tag" in each.metadata]
            self._tags(sorted(tagged, key=lambda f: f.metadata["tag"]), path)

    def _tags(self, tagged: list[Any], path: str) -> None:
        self.number(f"{path}.tags".lstrip("."), "compact", len(tagged), is_size=True)
        for each in tagged:
            self.data += uvarint(each.metadata["tag"])
            inner = _Writer(self.values)
            inner._field(each, True, f"{path}.{each.name}".lstrip("."))
            self.number(f"{each.name}.tag", "compact", len(inner.data), is_size=True)
            shift = len(self.data)
            self.marks += [
                m._replace(start=m.start + shift, end=m.end + shift) for m in inner.marks
            ]
            self.data += inner.data

    def _field(self, each: Any, flexible: bool, path: str) -> None:
        inner, is_array, nullable = _inner(each.type)
        count_kind = "compact" if flexible else ">i"
        if each.name in self.values and is_array:
            assert not self.values[each.name], "an array is given only to be empty"
            self.size(path, count_kind, -1 if self.values[each.name] is None else 0)
            return
        if is_array:
            self.size(path, count_kind, 1)
        if dataclasses.is_dataclass(inner):
            if nullable and not is_array:
                self.data += b"\x01"
            self.entity(inner, path)
            return
        self._primitive(each, each.metadata["kafka_type"], flexible, path)

    def _primitive(self, each: Any, kafka_type: str, flexible: bool, path: str) -> None:
        value = self.values.get(each.name, _ABSENT)
        match kafka_type:
            case "string":
                text = TOPIC if value is _ABSENT else value
                kind = "compact" if flexible else ">h"
                self.sized(path, None if text is None else str(text).encode(), kind)
            case "bytes" | "records":
                batch = batch_of(b"forged").encode() if value is _ABSENT else value
                self.sized(path, batch, "compact" if flexible else ">i")
            case "uuid":
                self.data += TOPIC_ID if value is _ABSENT else value
            case _:
                number = 0 if value is _ABSENT else int(value)
                self.number(path, _NUMBERS[kafka_type], number)


_ABSENT = object()


def _inner(annotation: Any) -> tuple[Any, bool, bool]:
    """The type inside of `X | None` and `tuple[X, ...]`; is it an array; may it be null."""
    nullable = False
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        nullable = True
        annotation = next(a for a in typing.get_args(annotation) if a is not types.NoneType)
    if typing.get_origin(annotation) is tuple:
        return _inner(typing.get_args(annotation)[0])[0], True, nullable
    return annotation, False, nullable
