"""What a leader changes in a batch: offset and epoch, and the time where the topic says so."""

import struct
from typing import NamedTuple

from crc32c import crc32c

from pykraft.records.batch import ATTRIBUTES_AT, LOG_APPEND_TIME, MAGIC

# Base offset, length and leader epoch: outside of what the checksum covers.
STAMP = struct.Struct(">qii")
STAMP_BYTES = STAMP.size
# From the beginning to the maximum timestamp: what changes when we set the time.
TIMED = struct.Struct(">qiibIhiqq")
TIMED_BYTES = TIMED.size
CRC_AT = 17


class Appended(NamedTuple):
    first_offset: int
    last_offset: int
    # -1 unless we set the time; of a duplicate, the time it was stored with, as Kafka answers.
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool


def stamp_time(records: memoryview, first_offset: int, leader_epoch: int, now_ms: int) -> bytearray:
    """The head of a batch whose time we set, with the checksum computed anew."""
    fields = TIMED.unpack_from(records)
    head = bytearray(
        TIMED.pack(
            first_offset,
            fields[1],
            leader_epoch,
            MAGIC,
            0,
            fields[5] | LOG_APPEND_TIME,
            fields[6],
            fields[7],
            now_ms,
        )
    )
    crc = crc32c(records[TIMED_BYTES:], crc32c(memoryview(head)[ATTRIBUTES_AT:]))
    head[CRC_AT:ATTRIBUTES_AT] = crc.to_bytes(4, "big")
    return head
