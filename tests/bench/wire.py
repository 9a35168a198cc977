"""Produce and Fetch as bytes that are made once and sent many times, and what the answers must be.

Produce v12 and Fetch v12: the newest versions that name topics, so that both brokers get literally
the same bytes.
"""

import struct
import time
from functools import lru_cache

import crc32c

PRODUCE, FETCH, VERSION = 0, 1, 12
CLIENT_ID = b"bench"
HEADER = struct.Struct(">hhih")
BATCH_HEAD = struct.Struct(">qiibI")
BATCH_CHECKED = struct.Struct(">hiqqqhii")
BATCH_HEADER_BYTES = BATCH_HEAD.size + BATCH_CHECKED.size
# The Java producer's max.request.size.
REQUEST_BYTES_MAX = 1 << 20
# What a Produce answer without an error has for each partition: index, error, base offset, append
# time, log start offset, no record errors, no message, no tags.
PARTITION_REPLY_BYTES = 4 + 2 + 8 + 8 + 8 + 1 + 1 + 1


def uvarint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def zigzag(number: int) -> bytes:
    return uvarint(number << 1 if number >= 0 else (-number << 1) - 1)


def read_uvarint(data: memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7


@lru_cache(maxsize=64)
def batch(value_bytes: int, batch_bytes: int) -> tuple[bytes, int]:
    """A batch of as many records as fit in `batch_bytes`, at least one; and how many these are."""
    value = (bytes(range(256)) * (value_bytes // 256 + 1))[:value_bytes]
    records: list[bytes] = []
    size = BATCH_HEADER_BYTES
    while True:
        body = b"\0\0" + zigzag(len(records)) + zigzag(-1) + zigzag(len(value)) + value + b"\0"
        record = zigzag(len(body)) + body
        size += len(record)
        if records and size > batch_bytes:
            break
        records.append(record)
    return _batch_of(records), len(records)


def _batch_of(records: list[bytes]) -> bytes:
    now_ms = time.time_ns() // 1_000_000
    count = len(records)
    checked = BATCH_CHECKED.pack(0, count - 1, now_ms, now_ms, -1, -1, -1, count)
    checked += b"".join(records)
    length = len(checked) + BATCH_HEAD.size - 12
    return BATCH_HEAD.pack(0, length, -1, 2, crc32c.crc32c(checked)) + checked


def one_record(value_bytes: int) -> bytes:
    return batch(value_bytes, 0)[0]


def produce_frame(topic: str, partitions: list[int], records: bytes, acks: int) -> bytes:
    """One Produce request with the same batch for each of these partitions."""
    name = topic.encode()
    parts = [
        _header(PRODUCE),
        b"\0",
        struct.pack(">hi", acks, 30_000),
        b"\2",
        uvarint(len(name) + 1) + name,
        uvarint(len(partitions) + 1),
    ]
    for partition in partitions:
        parts += [struct.pack(">i", partition), uvarint(len(records) + 1), records, b"\0"]
    parts.append(b"\0\0")
    return _framed(parts)


def spread(partitions: int, batch_bytes: int) -> list[list[int]]:
    """Which partitions go together in a request, so that none is larger than a producer's may be.

    Every partition comes once, in groups as even as possible.
    """
    fit = max(1, REQUEST_BYTES_MAX // (batch_bytes + 64))
    groups = -(-partitions // fit)
    return [list(range(n, partitions, groups)) for n in range(groups)]


class ProduceReply:
    """How the answer to a Produce of so many partitions looks when nothing went wrong."""

    def __init__(self, topic: str, partitions: int) -> None:
        head = 4 + 1 + 1 + len(uvarint(len(topic) + 1)) + len(topic)
        self._first = head + len(uvarint(partitions + 1))
        self._end = self._first + partitions * PARTITION_REPLY_BYTES
        # After the partitions: tags of the topic, throttle time, tags.
        self.size = self._end + 1 + 4 + 1
        self._no_errors = bytes(partitions)

    def is_good(self, body: bytes) -> bool:
        """Whether it has the size of an answer without errors and no partition has one."""
        step = PARTITION_REPLY_BYTES
        return (
            len(body) == self.size
            and body[self._first + 4 : self._end : step] == self._no_errors
            and body[self._first + 5 : self._end : step] == self._no_errors
        )


class FetchRequest:
    """A full Fetch without a session, with a consumer's default limits."""

    MAX_BYTES = 50 << 20
    PARTITION_MAX_BYTES = 1 << 20

    def __init__(self, topic: str) -> None:
        name = topic.encode()
        limits = struct.pack(">iiiibii", -1, 500, 1, self.MAX_BYTES, 0, 0, -1)
        self._head = _header(FETCH) + limits + b"\2" + uvarint(len(name) + 1) + name
        self._partition = struct.Struct(">iiqiqi")

    def frame(self, offsets: dict[int, int]) -> bytes:
        pack = self._partition.pack
        parts = [self._head, uvarint(len(offsets) + 1)]
        for partition, offset in offsets.items():
            parts += [pack(partition, -1, offset, -1, -1, self.PARTITION_MAX_BYTES), b"\0"]
        parts.append(b"\0\1\1\0")
        return _framed(parts)


def read_fetched(body: memoryview) -> tuple[int, dict[int, tuple[int, int]]]:
    """Bytes of records, and for each partition that has some: first and next offset."""
    error, at = struct.unpack_from(">h", body, 9)[0], 15
    assert error == 0, f"Fetch answered with error {error}"
    topics, at = read_uvarint(body, at)
    assert topics == 2, f"{topics - 1} topics in the answer"
    size, at = read_uvarint(body, at)
    at += size - 1
    count, at = read_uvarint(body, at)
    total = 0
    found: dict[int, tuple[int, int]] = {}
    for _ in range(count - 1):
        index, error = struct.unpack_from(">ih", body, at)
        assert error == 0, f"partition {index} answered with error {error}"
        aborted, at = read_uvarint(body, at + 4 + 2 + 8 + 8 + 8)
        assert aborted <= 1, "aborted transactions where none were"
        size, at = read_uvarint(body, at + 4)
        size = max(0, size - 1)
        if size:
            found[index] = _offsets_of(body, at, at + size)
            total += size
        at += size + 1
    assert at + 2 == len(body), f"{len(body) - at - 2} bytes after the last partition"
    return total, found


def _offsets_of(body: memoryview, at: int, end: int) -> tuple[int, int]:
    """The first offset and the one after the last whole batch; the last may be cut."""
    first = struct.unpack_from(">q", body, at)[0]
    head = struct.Struct(">qi").unpack_from
    whole = -1
    while at + BATCH_HEADER_BYTES <= end:
        length = head(body, at)[1]
        if at + 12 + length > end:
            break
        whole = at
        at += 12 + length
    assert whole >= 0, "no whole batch in the answer"
    return first, head(body, whole)[0] + struct.unpack_from(">i", body, whole + 23)[0] + 1


def _header(api_key: int) -> bytes:
    return HEADER.pack(api_key, VERSION, 0, len(CLIENT_ID)) + CLIENT_ID + b"\0"


def _framed(parts: list[bytes]) -> bytes:
    body = b"".join(parts)
    return struct.pack(">i", len(body)) + body
