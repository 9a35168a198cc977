"""kio, an implementation of Kafka's codec that is not ours, as the oracle of the wire tests.

Bodies are plain: mappings with kio's names, times in milliseconds, ids as sixteen bytes, error
codes as integers. The oracle turns them into kio's entities and back.
"""

import dataclasses
import io
import types
import typing
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

# The example database would be the only thing that the tests write into the work tree.
settings.register_profile(
    "wire",
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("wire")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_INT_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "timedelta_i32": 32}


class Kio:
    def entity(self, direction: str, api_key: int, version: int) -> Any:
        load = load_request_schema if direction == "request" else load_response_schema
        return load(api_key, version)

    def write(self, direction: str, api_key: int, version: int, body: Mapping[str, Any]) -> bytes:
        entity = self.entity(direction, api_key, version)
        buffer = io.BytesIO()
        entity_writer(entity)(buffer, _to_kio(entity, body))
        return buffer.getvalue()

    def read(self, direction: str, api_key: int, version: int, data: bytes) -> dict[str, Any]:
        entity = self.entity(direction, api_key, version)
        value, size = entity_reader(entity)(data, 0)
        assert size == len(data)
        plain = _from_kio(value)
        assert isinstance(plain, dict)
        return plain

    def bodies(
        self, direction: str, api_key: int, version: int, *, size_max: int = 3
    ) -> st.SearchStrategy[dict[str, Any]]:
        """Bodies that this version can carry."""
        return _struct_bodies(self.entity(direction, api_key, version), size_max)

    def fullest_body(self, direction: str, api_key: int, version: int) -> dict[str, Any]:
        """One element in every array, a value in every field, none of them a default."""
        return _fullest(self.entity(direction, api_key, version))


@pytest.fixture(scope="session")
def kio() -> Kio:
    return Kio()


def _shape(field: "dataclasses.Field[Any]") -> tuple[Any, bool, bool]:
    """The entity or None, whether an array, whether nullable."""
    annotation = field.type
    nullable = False
    if typing.get_origin(annotation) is types.UnionType:
        parts = typing.get_args(annotation)
        annotation = next(part for part in parts if part is not types.NoneType)
        nullable = True
    is_array = typing.get_origin(annotation) is tuple
    if is_array:
        annotation = typing.get_args(annotation)[0]
    entity = annotation if dataclasses.is_dataclass(annotation) else None
    if not is_array and field.metadata.get("kafka_type") in ("uuid", "datetime_i64"):
        nullable = False
    return entity, is_array, nullable


def _to_kio(entity: Any, body: Mapping[str, Any]) -> Any:
    values = {}
    for field in dataclasses.fields(entity):
        if field.name not in body:
            continue
        inner, is_array, _ = _shape(field)
        value = body[field.name]
        if value is not None:
            convert = _converter(field, inner)
            value = tuple(map(convert, value)) if is_array else convert(value)
        values[field.name] = value
    return entity(**values)


def _converter(field: "dataclasses.Field[Any]", entity: Any) -> Any:
    if entity is not None:
        return lambda value: _to_kio(entity, value)
    match field.metadata["kafka_type"]:
        case "uuid":
            return lambda value: UUID(bytes=bytes(value)) if any(value) else None
        case "timedelta_i32" | "timedelta_i64":
            return lambda value: value * _MILLISECOND
        case "datetime_i64":
            return lambda value: None if value == -1 else _EPOCH + value * _MILLISECOND
        case "error_code":
            return ErrorCode
    return lambda value: value


def _from_kio(value: Any, kafka_type: str | None = None) -> Any:
    if dataclasses.is_dataclass(value):
        return {
            field.name: _from_kio(getattr(value, field.name), field.metadata.get("kafka_type"))
            for field in dataclasses.fields(value)
        }
    if isinstance(value, tuple):
        return [_from_kio(item, kafka_type) for item in value]
    if kafka_type == "uuid":
        return bytes(16) if value is None else value.bytes
    if kafka_type == "datetime_i64":
        return -1 if value is None else (value - _EPOCH) // _MILLISECOND
    if isinstance(value, timedelta):
        return value // _MILLISECOND
    return int(value) if isinstance(value, ErrorCode) else value


def _struct_bodies(entity: Any, size_max: int) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {field.name: _values(field, size_max) for field in dataclasses.fields(entity)}
    )


def _values(field: "dataclasses.Field[Any]", size_max: int) -> st.SearchStrategy[Any]:
    entity, is_array, nullable = _shape(field)
    values: st.SearchStrategy[Any]
    if entity is not None:
        values = _struct_bodies(entity, size_max)
    else:
        values = _primitives(field.metadata["kafka_type"])
    if is_array:
        values = st.lists(values, max_size=size_max)
    # kio cannot write a null by tag, unless it is the default, which is not written at all.
    if nullable and ("tag" not in field.metadata or field.default is None):
        values = st.none() | values
    return values


def _primitives(kafka_type: str) -> st.SearchStrategy[Any]:
    if kafka_type in _INT_BITS:
        bits = _INT_BITS[kafka_type]
        return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
    return {
        "bool": st.booleans(),
        "uint16": st.integers(0, 0xFFFF),
        "float64": st.floats(allow_nan=False, allow_infinity=False),
        "string": st.text(max_size=200),
        "bytes": st.binary(max_size=300),
        "records": st.binary(max_size=300),
        "uuid": st.binary(min_size=16, max_size=16),
        "error_code": st.sampled_from([int(code) for code in ErrorCode]),
        # What timedelta and datetime can hold.
        "timedelta_i64": st.integers(-(1 << 40), 1 << 40),
        "datetime_i64": st.integers(-1, 1 << 41),
    }[kafka_type]


_FULLEST: dict[str, Any] = {
    "bool": True, "uint16": 9, "float64": 1.5, "string": "x", "bytes": b"y", "records": b"z",
    "uuid": b"u" * 16, "error_code": 3, "timedelta_i64": 5, "datetime_i64": 6, "int8": 3,
    "int16": 3, "int32": 3, "int64": 3, "timedelta_i32": 3,
}  # fmt: skip


def _fullest(entity: Any) -> dict[str, Any]:
    body = {}
    for field in dataclasses.fields(entity):
        inner, is_array, _ = _shape(field)
        value = _FULLEST[field.metadata["kafka_type"]] if inner is None else _fullest(inner)
        body[field.name] = [value] if is_array else value
    return body
