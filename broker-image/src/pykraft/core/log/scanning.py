"""Going through the batches of a segment file: the headers alone, or every byte."""

from collections.abc import Iterator

import crc32c

from pykraft.core.storage import File
from pykraft.records.batch import (
    ATTRIBUTES_AT,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    BatchHeader,
)

# A look-up goes through one index interval, 4 KB by default, and then needs one header more.
LOOKUP_BYTES = 8 * 1024
REPLAY_BYTES = 64 * 1024
CHECK_BYTES = 1024 * 1024

Located = tuple[int, BatchHeader]


def walk(file: File, position: int, end: int, chunk_bytes: int = LOOKUP_BYTES) -> Iterator[Located]:
    """Headers from `position` on, which must be where a batch begins. Ends at what is no batch."""
    buffer = b""
    start = position
    while position + HEADER_BYTES <= end:
        at = position - start
        if at + HEADER_BYTES > len(buffer):
            buffer = file.read_at(position, min(chunk_bytes, end - position))
            start, at = position, 0
            if len(buffer) < HEADER_BYTES:
                return
        header = BatchHeader._make(HEADER.unpack_from(buffer, at))
        if not _has_shape(header) or position + header.size > end:
            return
        yield position, header
        position += header.size


def walk_checked(file: File, base_offset: int) -> Iterator[Located]:
    """Every batch from the file's start that is whole and right; ends at the first that is not."""
    position, next_offset, end = 0, base_offset, file.size
    buffer, start = memoryview(b""), 0
    while position + HEADER_BYTES <= end:
        at = position - start
        if at + HEADER_BYTES > len(buffer):
            buffer, start, at = _read(file, position, end), position, 0
        header = BatchHeader._make(HEADER.unpack_from(buffer, at))
        size = header.size
        if not _has_shape(header) or position + size > end or header.base_offset < next_offset:
            return
        if at + size > len(buffer):
            buffer, start, at = _read(file, position, end), position, 0
        crc = crc32c.crc32c(buffer[at + ATTRIBUTES_AT : at + size])
        if size > len(buffer) - at:
            crc = _checksum_on(file, position + len(buffer), position + size, crc)
        if crc != header.crc:
            return
        yield position, header
        position += size
        next_offset = header.last_offset + 1


def _has_shape(header: BatchHeader) -> bool:
    return (
        header.length >= HEADER_BYTES - LOG_OVERHEAD_BYTES
        and header.magic == MAGIC
        and header.last_offset_delta >= 0
    )


def _read(file: File, position: int, end: int) -> memoryview:
    return memoryview(file.read_at(position, min(CHECK_BYTES, end - position)))


def _checksum_on(file: File, position: int, end: int, crc: int) -> int:
    """A batch larger than a chunk is never in memory as a whole."""
    while position < end:
        piece = file.read_at(position, min(CHECK_BYTES, end - position))
        if not piece:
            return -1
        crc = crc32c.crc32c(piece, crc)
        position += len(piece)
    return crc
