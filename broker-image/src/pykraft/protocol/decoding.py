"""Bytes to messages: a reader composed of closures for each (api key, version, direction).

The bytes come from anyone. Every count and length is held against the bytes that are left before
anything is allocated for it, and the elements of all arrays of one message are bounded besides,
because an element of three bytes becomes an object of hundreds.
"""

import struct
from collections.abc import Callable, Mapping
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, ClassVar

from pykraft.protocol.errors import ProtocolError
from pykraft.protocol.readers import BAD_BYTES, Budget, Reader, struct_reader
from pykraft.protocol.readers import skip_tags as skip_tags  # noqa: PLC0414 (exported)
from pykraft.protocol.schema import Direction, Field, Struct, known_versions, load, newest_field
from pykraft.protocol.versions import is_flexible

_REQUEST_HEADER = struct.Struct(">hhih")


class Message(SimpleNamespace):
    """A decoded message, with kio's names.

    A field that this version lacks, or that travels by tag and did not, reads as the default
    that the newest version which has it declares, so that a handler needs to know no versions.
    """

    _absent: ClassVar[Callable[[str], object] | None] = None

    def __getattr__(self, name: str) -> Any:
        absent = type(self)._absent
        if absent is None or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__} has no field {name!r}")
        return absent(name)


def decode_request(api_key: int, version: int, buffer: memoryview, offset: int = 0) -> Message:
    """Bytes after the message are ignored, as Kafka ignores them."""
    return _decode(_message_reader(api_key, version, "request"), buffer, offset)


def decode_response(api_key: int, version: int, buffer: memoryview, offset: int = 0) -> Message:
    return _decode(_message_reader(api_key, version, "response"), buffer, offset)


def make_request(api_key: int, body: Mapping[str, object]) -> Message:
    """The message that a request with these fields would be decoded to, in the newest version."""
    struct_ = load(api_key, known_versions(api_key)[-1], "request")
    message: Message = _make_value(api_key, "request", struct_, body)
    return message


def decode_struct(struct_: Struct, buffer: memoryview, offset: int = 0) -> tuple[Any, int]:
    """A value of a struct that declares how it is made, and the offset after it."""
    try:
        return _typed_reader(struct_)(buffer, offset, Budget())
    except BAD_BYTES as error:
        raise ProtocolError(f"{struct_.name} is cut short or malformed: {error}") from error


def read_request_header(buffer: memoryview) -> tuple[int, int, int, str | None, int]:
    """Api key, version, correlation id, client id, and where the body begins.

    The header of a key that we do not know is taken as the classic one, so that the refusal can
    name who asked. The client id is a classic string also in the flexible header.
    """
    try:
        api_key, version, correlation_id, length = _REQUEST_HEADER.unpack_from(buffer)
        offset = 10
        client_id = None
        if length >= 0:
            offset += length
            if offset > len(buffer):
                raise ProtocolError(f"a client id of {length} bytes in {len(buffer)}")
            client_id = str(buffer[10:offset], "utf-8")
        if is_flexible(api_key, version):
            offset = skip_tags(buffer, offset)
    except BAD_BYTES as error:
        raise ProtocolError(f"request header is cut short or malformed: {error}") from error
    return api_key, version, correlation_id, client_id, offset


def _decode(read: Reader, buffer: memoryview, offset: int) -> Message:
    try:
        message: Message = read(buffer, offset, Budget())[0]
    except BAD_BYTES as error:
        raise ProtocolError(f"message is cut short or malformed: {error}") from error
    return message


@cache
def _message_reader(api_key: int, version: int, direction: Direction) -> Reader:
    class_of = partial(_message_class, api_key, direction)
    return struct_reader(load(api_key, version, direction), class_of, owned=False)


@cache
def _typed_reader(struct_: Struct) -> Reader:
    return struct_reader(struct_, _declared_class, owned=True)


def _declared_class(struct_: Struct) -> Callable[..., Any]:
    assert struct_.make is not None
    return struct_.make


@cache
def _message_class(api_key: int, direction: Direction, struct_: Struct) -> type[Message]:
    def absent(name: str) -> object:
        field = newest_field(api_key, direction, struct_.path, name)
        if field is None:
            raise AttributeError(f"{struct_.name} has no field {name!r} in any version")
        return _default_value(api_key, direction, field)

    return type(struct_.name, (Message,), {"_absent": staticmethod(absent)})


def _default_value(api_key: int, direction: Direction, field: Field) -> object:
    if field.is_array:
        return None if field.default is None else []
    if isinstance(field.element, Struct) and isinstance(field.default, Mapping):
        return _make_value(api_key, direction, field.element, field.default)
    return field.default


def _make_value(
    api_key: int, direction: Direction, struct_: Struct, body: Mapping[str, object]
) -> Message:
    values = dict(body)
    for field in struct_.all_fields():
        if field.name not in body:
            values[field.name] = _default_value(api_key, direction, field)
        elif isinstance(field.element, Struct):
            make = partial(_make_value, api_key, direction, field.element)
            values[field.name] = _make_nested(make, body[field.name])
    return _message_class(api_key, direction, struct_)(**values)


def _make_nested(make: Callable[[Mapping[str, object]], Message], value: object) -> object:
    if isinstance(value, Mapping):
        return make(value)
    if isinstance(value, list | tuple):
        return [_make_nested(make, item) for item in value]
    return value
