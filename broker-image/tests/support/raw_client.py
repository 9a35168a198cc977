"""A Kafka client of bare frames: plain dicts in, plain dicts out, any version, any nonsense.

kio's dataclasses name the fields and kio's writers and readers do the bytes, so that nothing of
pykraft's own codec judges pykraft.
"""

import datetime
import io
import socket
import struct
import types
import typing
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Self
from uuid import UUID

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32Timedelta, i64Timedelta

ANSWER_SECONDS_MAX = 20
_EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)
_ZERO: dict[str, object] = {
    "bool": False,
    "bytes": b"",
    "records": None,
    "string": "",
    "uuid": None,
    "float64": 0.0,
}


class ConnectionClosedError(Exception):
    """The broker closed the connection instead of answering."""


class RawClient:
    """One connection. Requests are answered in order, so `ask` pairs each with its answer."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def ask(self, api_key: int, version: int, **values: object) -> dict[str, Any]:
        """Send a request, return its answer as a dict; absent fields take the schema's default."""
        self.send(api_key, version, **values)
        return self.answer(api_key, version)

    def send(self, api_key: int, version: int, **values: object) -> None:
        self.send_frame(self._encode(api_key, version, values))

    def answer(self, api_key: int, version: int) -> dict[str, Any]:
        frame = self.read_frame()
        assert struct.unpack_from(">i", frame)[0] == self._correlation_id, "answers out of order"
        return decode_answer(api_key, version, frame)

    def send_frame(self, body: bytes) -> None:
        self._socket.sendall(struct.pack(">i", len(body)) + body)

    def send_bytes(self, raw: bytes) -> None:
        self._socket.sendall(raw)

    def read_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)

    def is_closed_by_peer(self) -> bool:
        """Whether the next thing that arrives is the end of the stream."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _encode(self, api_key: int, version: int, values: dict[str, object]) -> bytes:
        self._correlation_id += 1
        schema = load_request_schema(api_key, version)
        header = {
            "request_api_key": api_key,
            "request_api_version": version,
            "correlation_id": self._correlation_id,
            "client_id": "raw",
        }
        out = io.BytesIO()
        entity_writer(schema.__header_schema__)(out, build(schema.__header_schema__, header))
        entity_writer(schema)(out, build(schema, values))
        return out.getvalue()

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                chunk = self._socket.recv(min(size - len(data), 1 << 20))
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                raise ConnectionClosedError(f"after {len(data)} of {size} bytes")
            data += chunk
        return bytes(data)


def decode_answer(api_key: int, version: int, frame: bytes) -> dict[str, Any]:
    """The body of an answer as nested dicts and lists; every byte of the frame must be used."""
    schema = load_response_schema(api_key, version)
    _, at = entity_reader(schema.__header_schema__)(frame, 0)
    body, size = entity_reader(schema)(frame, at)
    assert at + size == len(frame), f"{len(frame) - at - size} bytes after the answer"
    answer = plain(body)
    assert isinstance(answer, dict)
    return answer


def build(schema: Any, values: dict[str, Any]) -> Any:
    """A kio entity from plain values: ints for times, 16 bytes or UUID for ids, lists of dicts."""
    known = {field.name for field in fields(schema)}
    unknown = values.keys() - known
    assert not unknown, f"{schema.__name__} v{schema.__version__} has no {sorted(unknown)}"
    given = {
        field.name: _convert(field, values[field.name]) if field.name in values else _default(field)
        for field in fields(schema)
        if field.name in values or not _has_default(field)
    }
    return schema(**given)


def plain(entity: Any) -> Any:
    """An entity as dicts, lists, ints, strings and bytes."""
    if is_dataclass(entity):
        return {field.name: plain(getattr(entity, field.name)) for field in fields(entity)}
    match entity:
        case tuple():
            return [plain(each) for each in entity]
        case Enum():
            return int(entity.value)
        case datetime.timedelta():
            return round(entity / _MILLISECOND)
        case datetime.datetime():
            return round((entity - _EPOCH) / _MILLISECOND)
        case UUID():
            return entity.bytes
        case _:
            return entity


def _has_default(field: Any) -> bool:
    import dataclasses

    return field.default is not dataclasses.MISSING


def _inner(annotation: Any) -> tuple[Any, bool]:
    """The type inside `tuple[X, ...]` and `X | None`, and whether it was a tuple."""
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        annotation = next(a for a in typing.get_args(annotation) if a is not type(None))
    if typing.get_origin(annotation) is tuple:
        return _inner(typing.get_args(annotation)[0])[0], True
    return annotation, False


def _convert(field: Any, value: Any) -> Any:
    inner, is_array = _inner(field.type)
    if value is None:
        return None
    if is_array:
        return tuple(_convert_one(inner, field, each) for each in value)
    return _convert_one(inner, field, value)


def _convert_one(inner: Any, field: Any, value: Any) -> Any:
    if is_dataclass(inner):
        return build(inner, value)
    match field.metadata.get("kafka_type"):
        case "timedelta_i32":
            return i32Timedelta.parse(datetime.timedelta(milliseconds=value))
        case "timedelta_i64":
            return i64Timedelta.parse(datetime.timedelta(milliseconds=value))
        case "datetime_i64":
            return _EPOCH + datetime.timedelta(milliseconds=value)
        case "uuid":
            return UUID(bytes=bytes(value)) if isinstance(value, bytes) else value
        case "string":
            return value
        case "records" | "bytes":
            return bytes(value)
        case _:
            return value


def _default(field: Any) -> Any:
    inner, is_array = _inner(field.type)
    if is_array:
        return ()
    if is_dataclass(inner):
        return build(inner, {})
    if type(None) in typing.get_args(field.type):
        return None
    zero = _ZERO.get(field.metadata.get("kafka_type"), 0)
    return _convert(field, zero)
