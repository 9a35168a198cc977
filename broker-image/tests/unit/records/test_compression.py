import gzip
import zlib

import cramjam
import crc32c
import pytest

from pykraft.protocol.errors import ErrorCode
from pykraft.records.batch import ATTRIBUTES_AT, read_header
from pykraft.records.compression import (
    CODECS,
    GZIP,
    GZIP_PIECE_BYTES_MIN,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    CorruptRecordsError,
    compress,
    decompress,
    recompress,
)
from pykraft.records.records import Record, build_batch, iterate

TEXT = b"the quick brown fox " * 10_000
NOISE = bytes(zlib.crc32(bytes([i % 251, i // 251])) & 0xFF for i in range(40_000))


class Target:
    def __init__(self, codec: int | None, level: int = 1) -> None:
        self.target_codec = codec
        self.target_level = level


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize("data", [b"", b"x", TEXT, NOISE], ids=["empty", "one", "text", "noise"])
def test_what_was_compressed_decompresses_to_the_same(codec: int, data: bytes) -> None:
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_more_than_the_limit_is_refused(codec: int) -> None:
    packed = compress(codec, bytes(10_000_000))
    with pytest.raises(CorruptRecordsError):
        decompress(codec, packed, 100_000)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD, 5, 7])
def test_garbage_is_refused(codec: int) -> None:
    with pytest.raises(CorruptRecordsError) as caught:
        decompress(codec, b"\x82SNAPPY\x00garbage that is no codec's")
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_a_cut_stream_is_refused(codec: int) -> None:
    packed = compress(codec, TEXT)
    with pytest.raises(CorruptRecordsError):
        decompress(codec, packed[:-10])


def test_snappy_without_the_stream_of_snappy_java_is_one_raw_block() -> None:
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT


def test_lz4_frames_with_linked_blocks_and_checksums_are_read() -> None:
    assert decompress(LZ4, bytes(cramjam.lz4.compress(TEXT))) == TEXT


def test_lz4_frames_have_independent_blocks_because_kafka_reads_no_others() -> None:
    assert compress(LZ4, TEXT)[4] & 0x20


def test_gzip_with_several_members_is_read_to_the_end() -> None:
    assert decompress(GZIP, gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"


def test_gzip_members_of_all_sizes_are_read_wherever_their_pieces_end() -> None:
    parts = [NOISE[:size] for size in (0, 1, 4000, 4096, 4100, 30_000, 0, 40_000, 7)]
    assert decompress(GZIP, b"".join(map(gzip.compress, parts))) == b"".join(parts)


def test_many_small_gzip_members_cost_as_much_as_they_are_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fed = 0
    real = zlib.decompressobj

    class Counting:
        def __init__(self, wbits: int) -> None:
            self.real = real(wbits)

        def decompress(self, piece: memoryview, size: int) -> bytes:
            nonlocal fed
            fed += len(piece)
            return self.real.decompress(piece, size)

        def __getattr__(self, name: str) -> object:
            return getattr(self.real, name)

    members = gzip.compress(b"x") * 5000
    monkeypatch.setattr(zlib, "decompressobj", Counting)
    assert decompress(GZIP, members) == b"x" * 5000
    assert fed <= 5000 * GZIP_PIECE_BYTES_MIN


@pytest.mark.parametrize("source", CODECS.values())
@pytest.mark.parametrize("target", CODECS.values())
def test_recompressing_keeps_the_records_and_the_rest_of_the_header(
    source: int, target: int
) -> None:
    records = [Record(b"k", TEXT[:500], (("h", b"v"),), 1_000 + i) for i in range(3)]
    batch = build_batch(
        records,
        timestamp_ms=1_000,
        attributes=source,
        producer_id=5,
        producer_epoch=1,
        base_sequence=9,
    )
    again = recompress(batch, Target(target))
    header = read_header(again)
    assert header.codec == target
    assert header.size == len(again)
    assert list(iterate(again)) == list(iterate(batch))
    assert header[6:] == read_header(batch)[6:]


def test_a_batch_with_a_wrong_checksum_comes_back_for_the_log_to_refuse() -> None:
    batch = bytearray(build_batch([Record(b"k", b"v")], timestamp_ms=1))
    batch[-1] ^= 1
    assert recompress(batch, Target(ZSTD)) == batch


def test_a_batch_of_an_unknown_codec_comes_back_for_the_log_to_refuse() -> None:
    batch = build_batch([Record(b"k", b"v")], timestamp_ms=1)
    checked = b"\x00\x05" + batch[ATTRIBUTES_AT + 2 :]
    odd = batch[:17] + crc32c.crc32c(checked).to_bytes(4, "big") + checked
    assert recompress(odd, Target(ZSTD)) == odd


@pytest.mark.parametrize("data", [b"", b"short", bytes(70)])
def test_what_is_no_batch_comes_back_for_the_log_to_refuse(data: bytes) -> None:
    assert recompress(data, Target(NONE)) == data
