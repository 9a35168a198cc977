"""What a message looks like on the wire, one `Struct` per (api key, version, direction).

kio carries Kafka's message schemas as dataclasses, one module per version. We read the shape out
of such a class once, when the version is first used, and let both class and module go: a node
serves a few versions of each API, and the classes of all of them would cost it seconds and tens
of megabytes.

Values have our own forms, not kio's: times are integers of milliseconds, ids are sixteen bytes,
error codes are integers.
"""

import dataclasses
import importlib.util
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Literal
from uuid import UUID

import kio
from kio.schema.index import api_key_map, schema_name_map

from pykraft.ids import ZERO_UUID

Direction = Literal["request", "response"]
Primitive = Literal[
    "bool", "int8", "int16", "int32", "int64", "uint16", "float64",
    "string", "bytes", "records", "uuid",
]  # fmt: skip
Path = tuple[str, ...]

FIXED_SIZES: Mapping[str, int] = {
    "bool": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint16": 2,
    "float64": 8, "uuid": 16,
}  # fmt: skip

# kio's richer types are integers on the wire, and for us.
_PLAIN_TYPES: Mapping[str, Primitive] = {
    "error_code": "int16",
    "timedelta_i32": "int32",
    "timedelta_i64": "int64",
    "datetime_i64": "int64",
}


# Compared and hashed by identity (eq=False): structs are keys of caches, and there is one of each.
@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One field. An array of `element`s when `is_array`; `nullable` then means the array."""

    name: str
    element: "Primitive | Struct"
    is_array: bool = False
    nullable: bool = False
    tag: int | None = None
    # A struct's default is a mapping of its fields; those left out have their own default.
    default: object = None

    def size_min(self, flexible: bool) -> int:
        """The fewest bytes that this field takes, which bounds how many a message can hold."""
        if self.is_array:
            return 1 if flexible else 4
        if isinstance(self.element, Struct):
            return 1 if self.nullable else self.element.size_min
        return element_size_min(self.element, flexible)


@dataclass(frozen=True, slots=True, eq=False)
class Struct:
    """Fields in wire order, and after them, if `flexible`, those that travel by tag."""

    name: str
    path: Path
    flexible: bool
    fields: tuple[Field, ...]
    tagged: tuple[Field, ...]
    # Makes the decoded value of keyword arguments. None: the codec makes a `Message`.
    make: Callable[..., Any] | None = None

    @property
    def size_min(self) -> int:
        return sum(field.size_min(self.flexible) for field in self.fields) + self.flexible

    def all_fields(self) -> Iterator[Field]:
        yield from self.fields
        yield from self.tagged

    def field(self, name: str) -> Field | None:
        return next((field for field in self.all_fields() if field.name == name), None)


def element_size_min(element: "Primitive | Struct", flexible: bool) -> int:
    if isinstance(element, Struct):
        return element.size_min
    if element in FIXED_SIZES:
        return FIXED_SIZES[element]
    if flexible:
        return 1
    return 2 if element == "string" else 4


def zero_value(element: "Primitive | Struct", *, is_array: bool, nullable: bool) -> object:
    """What a field without a default of its own holds when nobody gives it a value."""
    if nullable:
        return None
    if is_array:
        return ()
    if isinstance(element, Struct):
        return {}
    return _ZEROS.get(element, 0)


_ZEROS: Mapping[str, object] = {
    "bool": False, "float64": 0.0, "string": "", "bytes": b"", "records": b"", "uuid": ZERO_UUID,
}  # fmt: skip


def struct_of(
    name: str, path: Path, flexible: bool, fields: list[Field], make: Callable[..., Any] | None
) -> Struct:
    """The struct of `fields` in the order of their declaration, tagged ones among them."""
    return Struct(
        name=name,
        path=path,
        flexible=flexible,
        fields=tuple(field for field in fields if field.tag is None),
        # Kafka writes tags in rising order, whatever the order in the schema.
        tagged=tuple(
            sorted(
                (field for field in fields if field.tag is not None),
                key=lambda field: typing.cast(int, field.tag),
            )
        ),
        make=make,
    )


def known_versions(api_key: int) -> range:
    """The versions that a schema exists for, which may be more than we serve."""
    versions = schema_name_map[api_key_map[api_key]]
    return range(min(versions), max(versions) + 1)


@cache
def load(api_key: int, version: int, direction: Direction) -> Struct:
    """KeyError when Kafka 4.3 has no such message."""
    if api_key not in api_key_map or version not in schema_name_map[api_key_map[api_key]]:
        raise KeyError(f"no schema for api key {api_key} version {version}")
    entity = _load_class(api_key_map[api_key], version, direction)
    return _read_class(entity, ())


@cache
def newest_field(api_key: int, direction: Direction, path: Path, name: str) -> Field | None:
    """Field `name` of the struct at `path`, as the newest version that has it declares it."""
    for version in reversed(known_versions(api_key)):
        struct = _descend(load(api_key, version, direction), path)
        field = struct.field(name) if struct else None
        if field is not None:
            return field
    return None


def _descend(struct: Struct, path: Path) -> Struct | None:
    for name in path:
        field = struct.field(name)
        if field is None or not isinstance(field.element, Struct):
            return None
        struct = field.element
    return struct


def _load_class(name: str, version: int, direction: Direction) -> type:
    # The file alone, not its package: that would load the other direction too, and keep both.
    location = f"{kio.__path__[0]}/schema/{name}/v{version}/{direction}.py"
    spec = importlib.util.spec_from_file_location(
        f"kio.schema.{name}.v{version}.{direction}", location
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for entity in vars(module).values():
        if dataclasses.is_dataclass(entity) and _entity_type(entity) == direction:
            assert isinstance(entity, type)
            return entity
    raise AssertionError(f"{location} holds no {direction}")


def _entity_type(entity: object) -> str:
    return typing.cast(str, getattr(entity, "__type__").name)  # noqa: B009 (mypy knows no __type__)


def _read_class(entity: Any, path: Path) -> Struct:
    return struct_of(
        name=entity.__name__,
        path=path,
        flexible=entity.__flexible__,
        fields=[_read_field(field, path) for field in dataclasses.fields(entity)],
        make=None,
    )


def _read_field(field: "dataclasses.Field[Any]", path: Path) -> Field:
    inner, nullable = _without_none(field.type)
    is_array = typing.get_origin(inner) is tuple
    if is_array:
        inner, _ = _without_none(typing.get_args(inner)[0])
    element: Primitive | Struct
    if dataclasses.is_dataclass(inner):
        element = _read_class(inner, (*path, field.name))
    else:
        kafka_type = field.metadata["kafka_type"]
        element = _PLAIN_TYPES.get(kafka_type, kafka_type)
    if not is_array and (element == "uuid" or _is_kio_time(field)):
        # kio says None where Kafka says the zero id or the time -1.
        nullable = False
    return Field(
        name=field.name,
        element=element,
        is_array=is_array,
        nullable=nullable,
        tag=field.metadata.get("tag"),
        default=_read_default(field, element, is_array, nullable),
    )


def _is_kio_time(field: "dataclasses.Field[Any]") -> bool:
    return field.metadata.get("kafka_type") == "datetime_i64"


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if typing.get_origin(annotation) not in (types.UnionType, typing.Union):
        return annotation, False
    inner = [part for part in typing.get_args(annotation) if part is not types.NoneType]
    assert len(inner) == 1
    return inner[0], True


def _read_default(
    field: "dataclasses.Field[Any]", element: "Primitive | Struct", is_array: bool, nullable: bool
) -> object:
    if field.default is dataclasses.MISSING:
        return zero_value(element, is_array=is_array, nullable=nullable)
    if field.default is None and not nullable:
        return ZERO_UUID if element == "uuid" else -1
    return _plain(field.default)


def _plain(value: object) -> object:
    """A value of kio's in our form."""
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, bool | str | bytes | float | tuple) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    assert dataclasses.is_dataclass(value)
    values = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    # None is the default of every field of kio's that can be None, ids among them.
    return {name: _plain(inner) for name, inner in values.items() if inner is not None}
