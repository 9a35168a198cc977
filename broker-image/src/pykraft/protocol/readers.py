"""The closures that the decoders are composed of.

A reader is given the buffer, an offset and the budget of the message, and returns the value and the
offset after it. On bytes that end early or are no text it raises ProtocolError or one of BAD_BYTES,
which whoever calls the outermost reader turns into a ProtocolError: once a message, not a field.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any

from pykraft.protocol.errors import ProtocolError
from pykraft.protocol.schema import Field, Primitive, Struct, element_size_min

# Array elements and tagged fields of one message: more than any client sends. It bounds what a
# message costs when somebody tries: about forty megabytes, and a second of the loop.
ELEMENTS_MAX = 100_000
# An unsigned varint of 32 bits.
UVARINT_BYTES_MAX = 5

# What the closures raise, besides ProtocolError, on bytes that end early or are not text.
BAD_BYTES = (IndexError, struct.error, UnicodeDecodeError)


class Budget:
    """How many more array elements and tagged fields the message being read may have."""

    __slots__ = ("elements",)

    def __init__(self) -> None:
        self.elements = ELEMENTS_MAX

    def spend(self, count: int) -> None:
        self.elements -= count
        if self.elements < 0:
            raise ProtocolError(f"more than {ELEMENTS_MAX} elements in one message")


Reader = Callable[[memoryview, int, Budget], tuple[Any, int]]
MakerOf = Callable[[Struct], Callable[..., Any]]


def read_uvarint(buffer: memoryview, offset: int) -> tuple[int, int]:
    value = shift = 0
    for position in range(offset, offset + UVARINT_BYTES_MAX):
        byte = buffer[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
        shift += 7
    raise ProtocolError("a varint is longer than five bytes")


def skip_tags(buffer: memoryview, offset: int, budget: Budget | None = None) -> int:
    """The offset after a tag section of which nothing is wanted."""
    count = buffer[offset]
    if count == 0:
        return offset + 1
    count, offset = read_uvarint(buffer, offset)
    (budget or Budget()).spend(count)
    for _ in range(count):
        _, _, offset = read_tag(buffer, offset)
    return offset


def read_tag(buffer: memoryview, offset: int) -> tuple[int, int, int]:
    """A tag, and where its value begins and ends."""
    tag, offset = read_uvarint(buffer, offset)
    size, offset = read_uvarint(buffer, offset)
    end = offset + size
    # A slice would not complain, and a forged size would lead far outside of the buffer.
    if end > len(buffer):
        raise ProtocolError(f"tag {tag} of {size} bytes ends after the message")
    return tag, offset, end


def struct_reader(struct_: Struct, maker_of: MakerOf, *, owned: bool) -> Reader:
    """`maker_of` gives for each struct what makes its value of the fields as keywords.

    With `owned` the values keep nothing of the buffer and cannot change: bytes, not views of it,
    and tuples, not lists.
    """
    make = maker_of(struct_)
    flexible = struct_.flexible
    fields = [
        (field.name, _field_reader(field, flexible, maker_of, owned)) for field in struct_.fields
    ]
    tagged = {
        field.tag: (field.name, _field_reader(field, flexible, maker_of, owned))
        for field in struct_.tagged
    }

    def read_classic(buffer: memoryview, offset: int, budget: Budget) -> tuple[Any, int]:
        values = {}
        for name, read in fields:
            values[name], offset = read(buffer, offset, budget)
        return make(**values), offset

    def read_flexible(buffer: memoryview, offset: int, budget: Budget) -> tuple[Any, int]:
        values = {}
        for name, read in fields:
            values[name], offset = read(buffer, offset, budget)
        if buffer[offset] == 0:
            return make(**values), offset + 1
        offset = read_tagged(values, buffer, offset, budget)
        return make(**values), offset

    def read_tagged(values: dict[str, Any], buffer: memoryview, offset: int, budget: Budget) -> int:
        count, offset = read_uvarint(buffer, offset)
        budget.spend(count)
        for _ in range(count):
            tag, offset, end = read_tag(buffer, offset)
            if tag in tagged:
                name, read = tagged[tag]
                values[name], offset = read(buffer, offset, budget)
                if offset != end:
                    raise ProtocolError(f"tag {tag} of {struct_.name} is not as long as it says")
            offset = end
        return offset

    return read_flexible if struct_.flexible else read_classic


def _field_reader(field: Field, flexible: bool, maker_of: MakerOf, owned: bool) -> Reader:
    # A null inside of an array is never allowed, so what is nullable is the array alone.
    nullable = field.nullable and not field.is_array
    element = _element_reader(field.element, flexible, nullable, maker_of, owned)
    if not field.is_array:
        return element
    size_min = element_size_min(field.element, flexible)
    return _array_reader(element, size_min, flexible, field.nullable, owned)


def _element_reader(
    element: Primitive | Struct, flexible: bool, nullable: bool, maker_of: MakerOf, owned: bool
) -> Reader:
    if isinstance(element, Struct):
        reader = struct_reader(element, maker_of, owned=owned)
        return _nullable_struct_reader(reader) if nullable else reader
    if element in _FIXED_READERS:
        return _FIXED_READERS[element]
    sizes = _size_reader(flexible, wide=element != "string", nullable=nullable)
    if element == "string":
        return _string_reader(sizes)
    return _bytes_reader(sizes, owned)


def _nullable_struct_reader(read: Reader) -> Reader:
    def read_nullable(buffer: memoryview, offset: int, budget: Budget) -> tuple[Any, int]:
        # KIP-893: a byte below zero is null, any other announces the struct.
        if buffer[offset] >= 0x80:
            return None, offset + 1
        return read(buffer, offset + 1, budget)

    return read_nullable


SizeReader = Callable[[memoryview, int], tuple[int, int]]


def _size_reader(flexible: bool, *, wide: bool, nullable: bool) -> SizeReader:
    """Reads a length or a count: -1 is null, and refused unless `nullable`."""
    classic = struct.Struct(">i" if wide else ">h")

    def read_classic(buffer: memoryview, offset: int) -> tuple[int, int]:
        (size,) = classic.unpack_from(buffer, offset)
        # Kafka takes any negative length for null.
        if size < 0 and not nullable:
            raise ProtocolError(f"length {size} where null is not allowed")
        return max(size, -1), offset + classic.size

    def read_compact(buffer: memoryview, offset: int) -> tuple[int, int]:
        size = buffer[offset]
        if size < 0x80:
            offset += 1
        else:
            size, offset = read_uvarint(buffer, offset)
        if size == 0 and not nullable:
            raise ProtocolError("null where it is not allowed")
        return size - 1, offset

    return read_compact if flexible else read_classic


def _array_reader(
    read: Reader, size_min: int, flexible: bool, nullable: bool, owned: bool
) -> Reader:
    read_count = _size_reader(flexible, wide=True, nullable=nullable)
    size_min = max(size_min, 1)

    def read_array(buffer: memoryview, offset: int, budget: Budget) -> tuple[Any, int]:
        count, offset = read_count(buffer, offset)
        if count < 0:
            return None, offset
        left = len(buffer) - offset
        if count * size_min > left:
            raise ProtocolError(f"{count} elements of at least {size_min} bytes in {left} bytes")
        budget.spend(count)
        values = []
        for _ in range(count):
            value, offset = read(buffer, offset, budget)
            values.append(value)
        return tuple(values) if owned else values, offset

    return read_array


def _string_reader(read_size: SizeReader) -> Reader:
    def read_string(buffer: memoryview, offset: int, _: Budget) -> tuple[Any, int]:
        size, offset = read_size(buffer, offset)
        if size < 0:
            return None, offset
        end = offset + size
        if end > len(buffer):
            raise ProtocolError(f"a string of {size} bytes ends after the message")
        return str(buffer[offset:end], "utf-8"), end

    return read_string


def _bytes_reader(read_size: SizeReader, owned: bool) -> Reader:
    def read_bytes(buffer: memoryview, offset: int, _: Budget) -> tuple[Any, int]:
        size, offset = read_size(buffer, offset)
        if size < 0:
            return None, offset
        end = offset + size
        if end > len(buffer):
            raise ProtocolError(f"{size} bytes end after the message")
        piece = buffer[offset:end]
        return bytes(piece) if owned else piece, end

    return read_bytes


def _read_bool(buffer: memoryview, offset: int, _: Budget) -> tuple[Any, int]:
    return buffer[offset] != 0, offset + 1


def _read_uuid(buffer: memoryview, offset: int, _: Budget) -> tuple[Any, int]:
    end = offset + 16
    if end > len(buffer):
        raise ProtocolError("an id of sixteen bytes ends after the message")
    return bytes(buffer[offset:end]), end


def _number_reader(code: str) -> Reader:
    number = struct.Struct(code)
    unpack_from = number.unpack_from
    size = number.size

    def read_number(buffer: memoryview, offset: int, _: Budget) -> tuple[Any, int]:
        return unpack_from(buffer, offset)[0], offset + size

    return read_number


_FIXED_READERS: Mapping[str, Reader] = {
    "bool": _read_bool,
    "uuid": _read_uuid,
    "int8": _number_reader(">b"),
    "int16": _number_reader(">h"),
    "int32": _number_reader(">i"),
    "int64": _number_reader(">q"),
    "uint16": _number_reader(">H"),
    "float64": _number_reader(">d"),
}
