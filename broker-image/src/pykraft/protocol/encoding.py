"""Messages to bytes: a writer composed of closures for each (api key, version, direction).

The messages are our own, so what does not fit is our fault: struct.error, TypeError or
ValueError, never a ProtocolError. The answers that are hot have encoders of their own in
`hot_responses`.
"""

import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from pykraft.protocol.schema import Direction, Field, Primitive, Struct, load
from pykraft.protocol.versions import ApiKey, is_flexible

Pieces = list[bytes]
Writer = Callable[[Pieces, Any], None]
Getter = Callable[[Any, str, object], object]

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def encode_response(api_key: int, version: int, body: Mapping[str, object]) -> bytes:
    """The body alone, of nested mappings and sequences with kio's names.

    Fields that this version lacks are left out, and those not given have the schema's default.
    """
    return _encode(_message_writer(api_key, version, "response"), body)


def encode_request(api_key: int, version: int, body: Mapping[str, object]) -> bytes:
    return _encode(_message_writer(api_key, version, "request"), body)


def encode_struct(struct_: Struct, value: object) -> bytes:
    """A value with an attribute for each field."""
    return _encode(_typed_writer(struct_), value)


def response_header(api_key: int, version: int, correlation_id: int) -> bytes:
    """What stands between the size of the frame and the body."""
    # A client asks ApiVersions before it knows whether we know flexible headers (KIP-511).
    if is_flexible(api_key, version) and api_key != ApiKey.API_VERSIONS:
        return _INT32.pack(correlation_id) + b"\x00"
    return _INT32.pack(correlation_id)


def uvarint(value: int) -> bytes:
    if value < 0x80:
        return _ONE_BYTE[value]
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


_ONE_BYTE = tuple(bytes((value,)) for value in range(0x80))


def _encode(write: Writer, value: object) -> bytes:
    pieces: Pieces = []
    write(pieces, value)
    return b"".join(pieces)


@cache
def _message_writer(api_key: int, version: int, direction: Direction) -> Writer:
    return _struct_writer(load(api_key, version, direction), _get_item)


@cache
def _typed_writer(struct_: Struct) -> Writer:
    return _struct_writer(struct_, getattr)


def _get_item(body: Mapping[str, object], name: str, default: object) -> object:
    return body.get(name, default)


def _struct_writer(struct_: Struct, get: Getter) -> Writer:
    fields = [
        (field.name, field.default, _field_writer(field, struct_.flexible, get))
        for field in struct_.fields
    ]
    tagged = [_tagged_writer(field, get) for field in struct_.tagged]

    def write_classic(pieces: Pieces, value: object) -> None:
        for name, default, write in fields:
            write(pieces, get(value, name, default))

    def write_flexible(pieces: Pieces, value: object) -> None:
        for name, default, write in fields:
            write(pieces, get(value, name, default))
        written: Pieces = []
        for write in tagged:
            write(written, value)
        pieces.append(uvarint(len(written)))
        pieces += written

    return write_flexible if struct_.flexible else write_classic


def _tagged_writer(field: Field, get: Getter) -> Writer:
    """Takes the value of the struct around, and adds one piece, or none for the default."""
    write = _field_writer(field, True, get)
    name, default = field.name, field.default
    # Defaults inside of a typed struct are not mappings, but then no such field is a struct.
    default_bytes = None if default is None else _encode(write, default)
    assert field.tag is not None
    tag = uvarint(field.tag)

    def write_tagged(pieces: Pieces, value: object) -> None:
        inner = get(value, name, default)
        if inner is None and default_bytes is None:
            return
        body = _encode(write, inner)
        # Compared as bytes, so that a struct counts as its default however much of it is spelled.
        if body != default_bytes:
            pieces.append(b"".join((tag, uvarint(len(body)), body)))

    return write_tagged


def _field_writer(field: Field, flexible: bool, get: Getter) -> Writer:
    nullable = field.nullable and not field.is_array
    write = _element_writer(field.element, flexible, nullable, get)
    if field.is_array:
        write = _array_writer(write, flexible, field.nullable)
    return write


def _element_writer(
    element: Primitive | Struct, flexible: bool, nullable: bool, get: Getter
) -> Writer:
    if isinstance(element, Struct):
        writer = _struct_writer(element, get)
        return _nullable_struct_writer(writer) if nullable else writer
    if element in _FIXED_WRITERS:
        return _FIXED_WRITERS[element]
    write_size = _size_writer(flexible, wide=element != "string", nullable=nullable)
    return _string_writer(write_size) if element == "string" else _bytes_writer(write_size)


def _nullable_struct_writer(write: Writer) -> Writer:
    def write_nullable(pieces: Pieces, value: object) -> None:
        # KIP-893.
        if value is None:
            pieces.append(b"\xff")
            return
        pieces.append(b"\x01")
        write(pieces, value)

    return write_nullable


SizeWriter = Callable[[int | None], bytes]


def _size_writer(flexible: bool, *, wide: bool, nullable: bool) -> SizeWriter:
    """Writes a length or a count; None is null, and refused unless `nullable`."""
    pack = _INT32.pack if wide else _INT16.pack

    def write_classic(size: int | None) -> bytes:
        if size is None:
            return pack(_checked_null(nullable))
        return pack(size)

    def write_compact(size: int | None) -> bytes:
        if size is None:
            return uvarint(_checked_null(nullable) + 1)
        return uvarint(size + 1)

    return write_compact if flexible else write_classic


def _checked_null(nullable: bool) -> int:
    if not nullable:
        raise ValueError("None for a field that cannot be null")
    return -1


def _array_writer(write: Writer, flexible: bool, nullable: bool) -> Writer:
    write_count = _size_writer(flexible, wide=True, nullable=nullable)

    def write_array(pieces: Pieces, value: Any) -> None:
        if value is None:
            pieces.append(write_count(None))
            return
        pieces.append(write_count(len(value)))
        for item in value:
            write(pieces, item)

    return write_array


def _string_writer(write_size: SizeWriter) -> Writer:
    def write_string(pieces: Pieces, value: str | None) -> None:
        if value is None:
            pieces.append(write_size(None))
            return
        encoded = value.encode()
        pieces.append(write_size(len(encoded)))
        pieces.append(encoded)

    return write_string


def _bytes_writer(write_size: SizeWriter) -> Writer:
    def write_bytes(pieces: Pieces, value: Any) -> None:
        if value is None:
            pieces.append(write_size(None))
            return
        pieces.append(write_size(len(value)))
        pieces.append(value)

    return write_bytes


def _write_bool(pieces: Pieces, value: object) -> None:
    pieces.append(b"\x01" if value else b"\x00")


def _write_uuid(pieces: Pieces, value: bytes) -> None:
    if len(value) != 16:
        raise ValueError(f"an id of {len(value)} bytes")
    pieces.append(value)


def _number_writer(code: str) -> Writer:
    pack = struct.Struct(code).pack

    def write_number(pieces: Pieces, value: object) -> None:
        pieces.append(pack(value))

    return write_number


_FIXED_WRITERS: Mapping[str, Writer] = {
    "bool": _write_bool,
    "uuid": _write_uuid,
    "int8": _number_writer(">b"),
    "int16": _number_writer(">h"),
    "int32": _number_writer(">i"),
    "int64": _number_writer(">q"),
    "uint16": _number_writer(">H"),
    "float64": _number_writer(">d"),
}
