"""The header of a record batch, format v2: sixty-one bytes, read with one call.

    offset  field                  offset  field
     0      base offset     i64     23     last offset delta  i32
     8      batch length    i32     27     base timestamp     i64
    12      leader epoch    i32     35     max timestamp      i64
    16      magic           i8      43     producer id        i64
    17      crc             u32     51     producer epoch     i16
    21      attributes      i16     53     base sequence      i32
                                    57     record count       i32

The checksum (CRC32C) covers everything from the attributes on, so that base offset and leader
epoch can be stamped without computing it anew.
"""

import struct
from typing import NamedTuple

from typing_extensions import Buffer

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size
# Base offset and length: what precedes the bytes that `length` counts.
LOG_OVERHEAD_BYTES = 12
ATTRIBUTES_AT = 21
# The smallest record there can be: attributes and six varints, a byte each.
RECORD_BYTES_MIN = 7
MAGIC = 2

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1

assert HEADER_BYTES == 61


class BatchHeader(NamedTuple):
    """In the order of the bytes. `length` counts what follows it, so a batch has length + 12."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # Kafka's word; hides tuple.count, which nobody needs.

    @property
    def size(self) -> int:
        return self.length + LOG_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def last_sequence(self) -> int:
        """Sequence numbers wrap from 2**31 - 1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Raises struct.error when fewer than sixty-one bytes are left."""
    return BatchHeader._make(HEADER.unpack_from(buffer, position))
