"""Going through the batches of a segment file: the headers alone, or every byte."""

import zlib
from collections.abc import Iterator

import crc32c

from pykraft.core.storage import File, StorageError
from pykraft.protocol.errors import ErrorCode, KafkaError
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

# The smallest message of the formats before batches, behind its offset and length.
OLD_MESSAGE_BYTES_MIN = 14
OLD_CHECKED_FROM = LOG_OVERHEAD_BYTES + 4

Located = tuple[int, BatchHeader]


class OldFormatError(StorageError):
    """Messages of magic 0 or 1. They are whole and somebody's: they are never cut off."""

    def __init__(self, path: str, position: int, magic: int) -> None:
        super().__init__(
            f"{path}: at position {position} begin messages of format {magic}, which is not"
            " read here; have Kafka 3 rewrite the topic with message format 2, or move the folder"
            " of the partition away"
        )


def unsupported(error: OldFormatError) -> KafkaError:
    """The disk is fine, and so are the other partitions on it."""
    return KafkaError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, str(error))


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
            refuse_old_message(file, position)
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


def refuse_old_message(file: File, position: int, *, by_shape: bool = False) -> None:
    """Raises OldFormatError. A message's checksum tells it from what a crash has left; where no
    crash was, its shape is enough."""
    head = file.read_at(position, HEADER_BYTES)
    if len(head) < OLD_CHECKED_FROM + 1:
        return
    header = BatchHeader._make(HEADER.unpack(head.ljust(HEADER_BYTES, b"\0")))
    end = position + header.size
    if not _has_old_shape(header) or end > file.size:
        return
    # Where batches have their leader's epoch, messages have the checksum.
    crc = header.leader_epoch & 0xFFFFFFFF
    if by_shape or _checksum_of_message(file, position + OLD_CHECKED_FROM, end) == crc:
        raise OldFormatError(file.path, position, header.magic)


def _checksum_of_message(file: File, position: int, end: int) -> int:
    crc = 0
    while position < end:
        piece = file.read_at(position, min(CHECK_BYTES, end - position))
        if not piece:
            return -1
        crc = zlib.crc32(piece, crc)
        position += len(piece)
    return crc


def _has_old_shape(header: BatchHeader) -> bool:
    return (
        0 <= header.magic < MAGIC
        and header.length >= OLD_MESSAGE_BYTES_MIN
        and header.base_offset >= 0
    )


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
