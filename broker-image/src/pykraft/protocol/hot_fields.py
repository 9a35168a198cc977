"""Counts, strings and ids for the decoders written by hand: (value, offset after it).

Like the composed readers they raise ProtocolError or one of BAD_BYTES.
"""

import struct

from pykraft.protocol.errors import ProtocolError
from pykraft.protocol.readers import read_uvarint

_INT16 = struct.Struct(">h").unpack_from
_INT32 = struct.Struct(">i").unpack_from


def read_int32s(buffer: memoryview, offset: int, count: int) -> tuple[list[int], int]:
    return list(struct.unpack_from(f">{count}i", buffer, offset)), offset + 4 * count


def read_uuid(buffer: memoryview, offset: int) -> tuple[bytes, int]:
    end = offset + 16
    if end > len(buffer):
        raise ProtocolError("an id of sixteen bytes ends after the message")
    return bytes(buffer[offset:end]), end


def read_compact_count(buffer: memoryview, offset: int, size_min: int) -> tuple[int, int]:
    """A count that is not null, of elements that take `size_min` bytes at least."""
    count = buffer[offset]
    if count < 0x80:
        offset += 1
    else:
        count, offset = read_uvarint(buffer, offset)
    if count == 0:
        raise ProtocolError("null where an array is required")
    if (count - 1) * size_min > len(buffer) - offset:
        raise ProtocolError(f"{count - 1} elements in {len(buffer) - offset} bytes")
    return count - 1, offset


def read_classic_count(buffer: memoryview, offset: int, size_min: int) -> tuple[int, int]:
    (count,) = _INT32(buffer, offset)
    offset += 4
    if count < 0:
        raise ProtocolError("null where an array is required")
    if count * size_min > len(buffer) - offset:
        raise ProtocolError(f"{count} elements in {len(buffer) - offset} bytes")
    return count, offset


def read_compact_string(buffer: memoryview, offset: int) -> tuple[str | None, int]:
    length = buffer[offset]
    if length < 0x80:
        offset += 1
    else:
        length, offset = read_uvarint(buffer, offset)
    if length == 0:
        return None, offset
    end = offset + length - 1
    if end > len(buffer):
        raise ProtocolError(f"a string of {length - 1} bytes ends after the message")
    return str(buffer[offset:end], "utf-8"), end


def require_compact_string(buffer: memoryview, offset: int) -> tuple[str, int]:
    text, offset = read_compact_string(buffer, offset)
    if text is None:
        raise ProtocolError("null where a string is required")
    return text, offset


def read_classic_string(buffer: memoryview, offset: int) -> tuple[str | None, int]:
    (length,) = _INT16(buffer, offset)
    offset += 2
    if length < 0:
        return None, offset
    end = offset + length
    if end > len(buffer):
        raise ProtocolError(f"a string of {length} bytes ends after the message")
    return str(buffer[offset:end], "utf-8"), end


def require_classic_string(buffer: memoryview, offset: int) -> tuple[str, int]:
    text, offset = read_classic_string(buffer, offset)
    if text is None:
        raise ProtocolError("null where a string is required")
    return text, offset
