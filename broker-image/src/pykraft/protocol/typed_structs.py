"""Structs declared as dataclasses of our own: the records of KRaft, which kio has no schemas for.

A field says its Kafka type with `wire`, and the version that it came with. The codec makes
instances of the dataclass itself; a field that a version lacks keeps its default.
"""

import dataclasses
import types
import typing
from typing import Any

from pykraft.protocol.schema import Field, Path, Primitive, Struct, struct_of


def wire(
    kafka_type: Primitive | type,
    default: Any = dataclasses.MISSING,
    *,
    since: int = 0,
    tag: int | None = None,
) -> Any:
    """A dataclass field of `kafka_type`: a Kafka primitive or a dataclass of such fields.

    Whether it is an array or nullable is read from the annotation. One that can be absent from
    the wire, by its version or its tag, needs a default.
    """
    assert default is not dataclasses.MISSING or (since == 0 and tag is None)
    return dataclasses.field(
        default=default, metadata={"kafka_type": kafka_type, "since": since, "tag": tag}
    )


_structs: dict[tuple[type, int], Struct] = {}


def typed_struct(entity: type, version: int) -> Struct:
    """The struct of `entity` in `version`. All of KRaft's records are flexible in all versions."""
    struct = _structs.get((entity, version))
    if struct is None:
        struct = _structs[entity, version] = _read(entity, version, ())
    return struct


def _read(entity: Any, version: int, path: Path) -> Struct:
    annotations = typing.get_type_hints(entity)
    fields = [
        _field(field, annotations[field.name], version, path)
        for field in dataclasses.fields(entity)
        if field.metadata["since"] <= version
    ]
    return struct_of(entity.__name__, path, True, fields, entity)


def _field(field: "dataclasses.Field[Any]", annotation: Any, version: int, path: Path) -> Field:
    parts = typing.get_args(annotation) if _is_union(annotation) else (annotation,)
    kafka_type = field.metadata["kafka_type"]
    element: Primitive | Struct = kafka_type
    if isinstance(kafka_type, type):
        element = _read(kafka_type, version, (*path, field.name))
    return Field(
        name=field.name,
        element=element,
        is_array=any(typing.get_origin(part) is tuple for part in parts),
        nullable=types.NoneType in parts,
        tag=field.metadata["tag"],
        default=None if field.default is dataclasses.MISSING else field.default,
    )


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (types.UnionType, typing.Union)
