"""The codecs of record batches: none, gzip, snappy, lz4 and zstd, each in the framing Kafka uses.

The data path never comes here: a batch is stored as it was produced. These are for workers that
recompress, for look-ups inside a batch, and for the logs that the node itself reads. Decompressing
has a bound, because a few kilobytes can claim to be gigabytes.
"""

import struct
import zlib
from typing import Protocol

import crc32c
from typing_extensions import Buffer

from pykraft.protocol.errors import ErrorCode, KafkaError
from pykraft.records.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
)

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
# Kafka's default levels (KIP-390); snappy has none.
DEFAULT_LEVELS = {GZIP: -1, LZ4: 9, ZSTD: 3}
# As much as a request can have (socket.request.max.bytes): what could not be sent plain is not
# unpacked either.
DECOMPRESSED_BYTES_MAX = 100 * 1024 * 1024

# Doubles as long as a member goes on.
GZIP_PIECE_BYTES_MIN = 4 * 1024

# snappy-java's stream: magic, version 1, readable by version 1, then blocks with an i32 length.
XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_BLOCK_BYTES = 32 * 1024
LENGTH = struct.Struct(">i")

LZ4_MAGIC = b"\x04\x22\x4d\x18"
# Independent blocks of at most 64 KB, no checksums; the last byte is the header's own checksum.
# Kafka reads no frame whose blocks depend on each other, which is what most libraries write.
LZ4_HEADER = LZ4_MAGIC + b"\x60\x40\x82"
LZ4_BLOCK_BYTES = 64 * 1024
LZ4_STORED = 0x80000000
LZ4_LENGTH = struct.Struct("<I")
LZ4_RATIO_MAX = 255


class CorruptRecordsError(KafkaError):
    """The bytes of a batch are not what its header says."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, message)


class CompressedBytesError(CorruptRecordsError):
    """The compressed bytes of a batch are not of its codec, or become too many."""


class CompressionTarget(Protocol):
    """What a topic's configuration says of compression."""

    @property
    def target_codec(self) -> int | None: ...

    @property
    def target_level(self) -> int: ...


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    if level is None:
        level = DEFAULT_LEVELS.get(codec, 0)
    if codec == NONE:
        return bytes(data)
    if codec == GZIP:
        packer = zlib.compressobj(level, zlib.DEFLATED, 31)
        return packer.compress(data) + packer.flush()
    if codec == SNAPPY:
        return _compress_snappy(memoryview(data))
    if codec == LZ4:
        return _compress_lz4(memoryview(data), level)
    if codec == ZSTD:
        import zstandard

        return bytes(zstandard.ZstdCompressor(level=level).compress(memoryview(data)))
    raise CompressedBytesError(f"unknown codec {codec}")


def decompress(codec: int, data: Buffer, limit: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Raises CompressedBytesError for bytes of another kind, and when they become too many."""
    if codec == NONE:
        return bytes(data)
    if codec == GZIP:
        return _decompress_gzip(data, limit)
    if codec == SNAPPY:
        return _decompress_snappy(memoryview(data), limit)
    if codec == LZ4:
        return _decompress_lz4(memoryview(data), limit)
    if codec == ZSTD:
        return _decompress_zstd(data, limit)
    raise CompressedBytesError(f"unknown codec {codec}")


def recompress(
    batch: Buffer, target: CompressionTarget, limit: int = DECOMPRESSED_BYTES_MAX
) -> bytes:
    """The same records in the codec that the topic wants. For a worker: it takes milliseconds.

    What does not have the shape of a batch comes back untouched, for the log to refuse. Raises
    CompressedBytesError.
    """
    view = memoryview(batch)
    codec = target.target_codec
    if codec is None or len(view) < HEADER_BYTES:
        return bytes(view)
    fields = list(HEADER.unpack_from(view))
    if (
        fields[1] + LOG_OVERHEAD_BYTES != len(view)
        or fields[5] & CODEC_MASK > ZSTD
        or crc32c.crc32c(view[ATTRIBUTES_AT:]) != fields[4]
    ):
        return bytes(view)
    records = decompress(fields[5] & CODEC_MASK, view[HEADER_BYTES:], limit)
    payload = compress(codec, records, target.target_level)
    fields[1] = HEADER_BYTES - LOG_OVERHEAD_BYTES + len(payload)
    fields[5] = fields[5] & ~CODEC_MASK | codec
    header = bytearray(HEADER.pack(*fields))
    crc = crc32c.crc32c(payload, crc32c.crc32c(header[ATTRIBUTES_AT:]))
    header[17:ATTRIBUTES_AT] = crc.to_bytes(4, "big")
    return bytes(header) + payload


def _decompress_gzip(data: Buffer, limit: int) -> bytes:
    """A gzip stream may have several members, one after the other.

    It is fed in pieces, because what follows the end of a member is copied by the library: were
    that the rest of the batch, fifty thousand empty members would cost gigabytes.
    """
    out = bytearray()
    view = memoryview(data)
    position, size = 0, GZIP_PIECE_BYTES_MIN
    unpacker = None
    while position < len(view):
        if unpacker is None:
            unpacker, size = zlib.decompressobj(31), GZIP_PIECE_BYTES_MIN
        piece = view[position : position + size]
        try:
            out += unpacker.decompress(piece, limit - len(out) + 1)
        except zlib.error as error:
            raise CompressedBytesError(f"gzip: {error}") from error
        if len(out) > limit:
            raise CompressedBytesError(f"more than {limit} bytes of records in a batch")
        position += len(piece) - len(unpacker.unused_data)
        size *= 2
        if unpacker.eof:
            unpacker = None
    if unpacker is not None:
        raise CompressedBytesError("gzip: the stream is cut")
    return bytes(out)


def _compress_snappy(data: memoryview) -> bytes:
    import cramjam

    out = bytearray(XERIAL_HEADER)
    for start in range(0, len(data), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + XERIAL_BLOCK_BYTES]))
        out += LENGTH.pack(len(block)) + block
    return bytes(out)


def _decompress_snappy(data: memoryview, limit: int) -> bytes:
    # Clients that do not use snappy-java's stream send one raw block.
    if data[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        return _snappy_block(data, limit)
    out = bytearray()
    position = len(XERIAL_HEADER)
    while position < len(data):
        if position + LENGTH.size > len(data):
            raise CompressedBytesError("snappy: a block is cut")
        (size,) = LENGTH.unpack_from(data, position)
        position += LENGTH.size
        if not 0 <= size <= len(data) - position:
            raise CompressedBytesError(f"snappy: a block of {size} bytes")
        out += _snappy_block(data[position : position + size], limit - len(out))
        position += size
    return bytes(out)


def _snappy_block(block: memoryview, limit: int) -> bytes:
    import cramjam

    try:
        if cramjam.snappy.decompress_raw_len(block) > limit:
            raise CompressedBytesError("more bytes of records in a batch than allowed")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CompressedBytesError(f"snappy: {error}") from error


def _compress_lz4(data: memoryview, level: int) -> bytes:
    import cramjam

    out = bytearray(LZ4_HEADER)
    for start in range(0, len(data), LZ4_BLOCK_BYTES):
        block = data[start : start + LZ4_BLOCK_BYTES]
        packed = bytes(
            cramjam.lz4.compress_block(
                block, mode="high_compression", compression=level, store_size=False
            )
        )
        if len(packed) < len(block):
            out += LZ4_LENGTH.pack(len(packed)) + packed
        else:
            out += LZ4_LENGTH.pack(len(block) | LZ4_STORED) + block
    return bytes(out + LZ4_LENGTH.pack(0))


def _decompress_lz4(data: memoryview, limit: int) -> bytes:
    import cramjam

    _bound_lz4(data, limit)
    try:
        out = bytes(cramjam.lz4.decompress(data))
    except cramjam.DecompressionError as error:
        raise CompressedBytesError(f"lz4: {error}") from error
    if len(out) > limit:
        raise CompressedBytesError(f"more than {limit} bytes of records in a batch")
    return out


def _bound_lz4(data: memoryview, limit: int) -> None:
    """Add up what the blocks may become, before the library allocates it."""
    if len(data) < 7 or data[:4] != LZ4_MAGIC:
        raise CompressedBytesError("lz4: no frame")
    flags, block_bytes_max = data[4], 1 << (2 * (data[5] >> 4 & 7) + 8)
    position = 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    total = 0
    while position + LZ4_LENGTH.size <= len(data):
        (word,) = LZ4_LENGTH.unpack_from(data, position)
        size = word & ~LZ4_STORED
        if size == 0:
            break
        total += size if word & LZ4_STORED else min(size * LZ4_RATIO_MAX, block_bytes_max)
        position += LZ4_LENGTH.size + size + (4 if flags & 0x10 else 0)
    # The sum counts every block as full, which all but the last are.
    if total > limit + block_bytes_max:
        raise CompressedBytesError(f"more than {limit} bytes of records in a batch")


def _decompress_zstd(data: Buffer, limit: int) -> bytes:
    import zstandard

    reader = zstandard.ZstdDecompressor().stream_reader(bytes(data), read_across_frames=True)
    out = bytearray()
    try:
        while chunk := reader.read(min(1 << 20, limit + 1 - len(out))):
            out += chunk
            if len(out) > limit:
                raise CompressedBytesError(f"more than {limit} bytes of records in a batch")
    except zstandard.ZstdError as error:
        raise CompressedBytesError(f"zstd: {error}") from error
    return bytes(out)
