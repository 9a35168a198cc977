"""What a leader accepts and refuses. The codes are those that Apache Kafka 4.3.1 answered."""

from collections.abc import Callable
from dataclasses import replace

import crc32c
import pytest

from pykraft.core.log.partition_log import PartitionLog
from pykraft.core.log.validation import RECORDS_AT_ONCE_MAX, RecordsUncheckedError
from pykraft.core.storage import StorageError
from pykraft.protocol.errors import ErrorCode, KafkaError
from pykraft.records.batch import LOG_APPEND_TIME, read_header
from pykraft.records.compression import CODECS, GZIP, recompress
from pykraft.records.records import Record, build_batch, iterate
from pykraft.runtime.disk import RealFile

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
OpenLog = Callable[..., PartitionLog]
MakeBatch = Callable[..., memoryview]


def append(
    log: PartitionLog, batch: bytes | memoryview, *, now_ms: int = NOW_MS
) -> tuple[int, int]:
    appended = log.append(memoryview(batch), leader_epoch=3, now_ms=now_ms)
    return appended.first_offset, appended.last_offset


def refusal(log: PartitionLog, batch: bytes | memoryview) -> ErrorCode:
    before = log.log_end_offset, log.size
    with pytest.raises(KafkaError) as caught:
        append(log, batch)
    assert (log.log_end_offset, log.size) == before
    return caught.value.code


def patched(batch: memoryview, position: int, field: bytes, *, sealed: bool = True) -> bytes:
    """The batch with one field changed, and a checksum that is right unless not `sealed`."""
    data = bytearray(batch)
    data[position : position + len(field)] = field
    if sealed:
        data[17:21] = crc32c.crc32c(data[21:]).to_bytes(4, "big")
    return bytes(data)


def test_a_batch_is_stored_as_it_came_but_for_offset_and_epoch(
    open_log: OpenLog, make_batch: MakeBatch
) -> None:
    log, batch = open_log(), make_batch(3)
    assert append(log, batch) == (0, 2)
    assert append(log, batch) == (3, 5)
    found = log.read(3, 10**6, end_offset=6, at_least_one=True)
    assert found is not None
    stored = found.file.read_at(found.position, found.size)
    header = read_header(stored)
    assert (header.base_offset, header.leader_epoch) == (3, 3)
    assert stored[16:] == batch[16:]


@pytest.mark.parametrize(
    ("position", "field", "code"),
    [
        (0, (5).to_bytes(8, "big"), ErrorCode.INVALID_RECORD),
        (8, (13).to_bytes(4, "big"), ErrorCode.CORRUPT_MESSAGE),
        (8, b"\xff\xff\xff\xff", ErrorCode.CORRUPT_MESSAGE),
        (8, (10_000).to_bytes(4, "big"), ErrorCode.INVALID_RECORD),
        (16, b"\x00", ErrorCode.INVALID_RECORD),
        (16, b"\x01", ErrorCode.INVALID_RECORD),
        (16, b"\x03", ErrorCode.CORRUPT_MESSAGE),
        (16, b"\xff", ErrorCode.CORRUPT_MESSAGE),
        (21, b"\x00\x20", ErrorCode.INVALID_RECORD),
        (21, b"\x00\x05", ErrorCode.UNKNOWN_SERVER_ERROR),
        (21, b"\x00\x07", ErrorCode.UNKNOWN_SERVER_ERROR),
        (23, (5).to_bytes(4, "big"), ErrorCode.INVALID_RECORD),
        (23, b"\xff\xff\xff\xff", ErrorCode.INVALID_RECORD),
        (57, (0).to_bytes(4, "big"), ErrorCode.INVALID_RECORD),
        (57, b"\xff\xff\xff\xff", ErrorCode.INVALID_RECORD),
        (57, (9).to_bytes(4, "big"), ErrorCode.INVALID_RECORD),
        (43, (7).to_bytes(8, "big"), ErrorCode.INVALID_RECORD),
    ],
)
def test_a_wrong_header_is_refused_with_kafkas_code(
    open_log: OpenLog, make_batch: MakeBatch, position: int, field: bytes, code: ErrorCode
) -> None:
    assert refusal(open_log(), patched(make_batch(3), position, field)) == code


def test_a_wrong_checksum_is_refused(open_log: OpenLog, make_batch: MakeBatch) -> None:
    bad = patched(make_batch(), 65, b"\xaa", sealed=False)
    assert refusal(open_log(), bad) == ErrorCode.CORRUPT_MESSAGE


def test_two_batches_are_refused(open_log: OpenLog, make_batch: MakeBatch) -> None:
    assert refusal(open_log(), bytes(make_batch()) * 2) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("size", [0, 10, 50, 65])
def test_a_cut_batch_is_refused(open_log: OpenLog, make_batch: MakeBatch, size: int) -> None:
    assert refusal(open_log(), make_batch()[:size]) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("rest", [b"12345", b"half"])
def test_bytes_after_the_batch_that_begin_no_other_are_dropped(
    open_log: OpenLog, make_batch: MakeBatch, rest: bytes
) -> None:
    log, batch = open_log(), make_batch()
    assert append(log, bytes(batch) + rest) == (0, 0)
    assert log.size == len(batch)


def test_zeros_after_the_batch_are_refused(open_log: OpenLog, make_batch: MakeBatch) -> None:
    assert refusal(open_log(), bytes(make_batch()) + bytes(20)) == ErrorCode.CORRUPT_MESSAGE


def test_a_batch_larger_than_allowed_is_refused(open_log: OpenLog, make_batch: MakeBatch) -> None:
    big = make_batch(value=bytes(300))
    assert refusal(open_log(max_message_bytes=300), big) == ErrorCode.MESSAGE_TOO_LARGE
    assert refusal(open_log(segment_bytes=300), big) == ErrorCode.RECORD_LIST_TOO_LARGE


def test_times_out_of_range_are_refused(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log(message_timestamp_before_max_ms=1000)
    late, early = NOW_MS + HOUR_MS + 1, NOW_MS - 1001
    assert refusal(log, make_batch(timestamp_ms=late)) == ErrorCode.INVALID_TIMESTAMP
    assert refusal(log, make_batch(timestamp_ms=early)) == ErrorCode.INVALID_TIMESTAMP
    assert append(log, make_batch(timestamp_ms=-1)) == (0, 0)
    assert append(log, make_batch(timestamp_ms=NOW_MS + HOUR_MS)) == (1, 1)


def test_a_header_that_lies_about_the_time_is_not_enough_to_refuse_good_records(
    open_log: OpenLog, make_batch: MakeBatch
) -> None:
    lying = patched(make_batch(), 35, (NOW_MS + 2 * HOUR_MS).to_bytes(8, "big"))
    assert append(open_log(), lying) == (0, 0)


def test_with_log_append_time_the_time_is_ours_and_the_checksum_right(
    open_log: OpenLog, make_batch: MakeBatch
) -> None:
    log = open_log(message_timestamp_type="LogAppendTime")
    batch = make_batch(2, timestamp_ms=1)
    appended = log.append(batch, leader_epoch=0, now_ms=NOW_MS)
    assert appended.log_append_time_ms == NOW_MS
    found = log.read(0, 10**6, end_offset=2, at_least_one=True)
    assert found is not None
    stored = found.file.read_at(found.position, found.size)
    header = read_header(stored)
    assert header.crc == crc32c.crc32c(stored[21:])
    assert header.attributes & LOG_APPEND_TIME
    assert [record.timestamp_ms for record in iterate(stored)] == [NOW_MS, NOW_MS]
    claimed = make_batch(attributes=LOG_APPEND_TIME)
    assert refusal(log, claimed) == ErrorCode.INVALID_TIMESTAMP


def test_a_compacted_topic_takes_no_record_without_key(open_log: OpenLog) -> None:
    log = open_log(cleanup_policy=frozenset({"compact"}))
    records = [Record(b"k", b"v"), Record(None, b"v")]
    assert refusal(log, build_batch(records, timestamp_ms=NOW_MS)) == ErrorCode.INVALID_RECORD
    assert append(log, build_batch(records[:1], timestamp_ms=NOW_MS)) == (0, 0)


def many(count: int, codec: int = 0) -> bytes:
    return build_batch([Record(b"k", b"v")] * count, timestamp_ms=NOW_MS, attributes=codec)


@pytest.mark.parametrize("batch", [many(1, GZIP), many(RECORDS_AT_ONCE_MAX + 1)])
def test_records_that_take_long_to_look_at_are_left_to_a_worker(
    open_log: OpenLog, batch: bytes
) -> None:
    log = open_log(cleanup_policy=frozenset({"compact"}))
    with pytest.raises(RecordsUncheckedError):
        append(log, batch)
    assert log.log_end_offset == 0
    log.append(memoryview(batch), leader_epoch=3, now_ms=NOW_MS, checked=True)
    assert log.log_end_offset > 0


def test_a_repeated_batch_is_answered_with_its_offset_and_time(
    open_log: OpenLog, make_batch: MakeBatch
) -> None:
    log = open_log()
    first = make_batch(2, producer_id=1, producer_epoch=0, base_sequence=0)
    append(log, make_batch())
    append(log, first)
    append(log, make_batch(producer_id=1, producer_epoch=0, base_sequence=2))
    again = log.append(first, leader_epoch=3, now_ms=NOW_MS)
    assert again == (1, 2, NOW_MS, 0, True)
    assert log.log_end_offset == 4
    gap = make_batch(producer_id=1, producer_epoch=0, base_sequence=9)
    assert refusal(log, gap) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_disk_that_refuses_leaves_the_log_as_it_was(
    open_log: OpenLog, make_batch: MakeBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log()
    append(log, make_batch())

    def fail(self: RealFile, parts: object) -> None:
        raise StorageError("no space left on device")

    batch = make_batch(producer_id=1, producer_epoch=0, base_sequence=0)
    with monkeypatch.context() as patch:
        patch.setattr(RealFile, "append", fail)
        with pytest.raises(StorageError):
            append(log, batch)
    assert log.log_end_offset == 1
    assert not log.producers.by_id
    assert append(log, batch) == (1, 1)


def test_segments_roll_by_size(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log, batch = open_log(segment_bytes=1000), make_batch(value=bytes(200))
    for _ in range(9):
        append(log, batch)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]
    assert all(segment.size <= 1000 for segment in log.segments)


def test_segments_roll_by_the_time_of_their_first_batch(
    open_log: OpenLog, make_batch: MakeBatch
) -> None:
    log = open_log(segment_ms=1000)
    for delta in (0, 900, 1000, 1001, 1500):
        append(log, make_batch(timestamp_ms=NOW_MS + delta))
    assert [segment.base_offset for segment in log.segments] == [0, 3]


def test_segments_without_times_roll_by_the_clock(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log(segment_ms=1000)
    for delta in (0, 1000, 1001):
        append(log, make_batch(timestamp_ms=-1), now_ms=NOW_MS + delta)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_segments_roll_when_an_index_is_full(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log(segment_index_bytes=40, index_interval_bytes=0)
    for at in range(9):
        append(log, make_batch(timestamp_ms=NOW_MS + at))
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]


def test_segments_roll_when_an_offset_does_not_fit(
    open_log: OpenLog, make_batch: MakeBatch
) -> None:
    log = open_log()
    far = 2**31
    log.append_with_offsets(make_batch(base_offset=5, leader_epoch=1), now_ms=NOW_MS)
    log.append_with_offsets(make_batch(base_offset=far, leader_epoch=1), now_ms=NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, far]


@pytest.mark.parametrize(
    ("base_offset", "last_delta"), [(2**63 - 10, 0), (2**63 - 2**31, 0), (0, -5)]
)
def test_offsets_that_a_log_cannot_have_are_refused(
    open_log: OpenLog, make_batch: MakeBatch, base_offset: int, last_delta: int
) -> None:
    log = open_log()
    batch = bytearray(make_batch(base_offset=base_offset, leader_epoch=1))
    batch[23:27] = last_delta.to_bytes(4, "big", signed=True)
    batch[17:21] = crc32c.crc32c(batch[21:]).to_bytes(4, "big")
    with pytest.raises(KafkaError) as caught:
        log.append_with_offsets(memoryview(batch), now_ms=NOW_MS)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
    assert (log.log_end_offset, log.size) == (0, 0)


def test_the_last_segment_there_can_be_holds_all_its_offsets_and_no_other_follows(
    open_log: OpenLog, make_batch: MakeBatch
) -> None:
    last = 2**63 - 1 - 2**31
    log = open_log()
    log.truncate_fully_and_start_at(last, now_ms=NOW_MS)
    batch = make_batch(base_offset=last, leader_epoch=1)
    assert log.append_with_offsets(batch, now_ms=NOW_MS) == last + 1
    with pytest.raises(StorageError, match="could not hold its offsets"):
        log.roll(NOW_MS)
    with pytest.raises(StorageError, match="could not hold its offsets"):
        open_log(log_start_offset=2**63 - 1)
    assert open_log().log_end_offset == last + 1


def test_the_jitter_makes_a_segment_roll_earlier(
    disk: object, make_batch: MakeBatch, open_log: OpenLog
) -> None:
    log = open_log(segment_ms=1000, segment_jitter_ms=400)
    assert log.segments[-1].roll_ms == 1000  # type: ignore[attr-defined]
    log._opener.new_jitter = lambda limit_ms: limit_ms // 2
    append(log, make_batch())
    log.roll(NOW_MS)
    assert log.segments[-1].roll_ms == 800  # type: ignore[attr-defined]


@pytest.mark.parametrize("timestamp_ms", [NOW_MS, -1], ids=["timed", "timeless"])
def test_another_segment_ms_counts_for_the_segment_that_has_begun(
    open_log: OpenLog, make_batch: MakeBatch, timestamp_ms: int
) -> None:
    log = open_log()
    log._opener.new_jitter = lambda limit_ms: 100
    log.configure(replace(log.config, segment_jitter_ms=200))
    append(log, make_batch())
    log.roll(NOW_MS)
    append(log, make_batch(timestamp_ms=timestamp_ms))
    log.configure(replace(log.config, segment_ms=1000))
    for delta in (900, 901):
        later = -1 if timestamp_ms < 0 else NOW_MS + delta
        append(log, make_batch(timestamp_ms=later), now_ms=NOW_MS + delta)
    assert [segment.base_offset for segment in log.segments] == [0, 1, 3]


def test_batches_of_a_leader_keep_their_offsets_and_epochs(
    open_log: OpenLog, make_batch: MakeBatch
) -> None:
    log = open_log()
    first = make_batch(2, base_offset=0, leader_epoch=4)
    second = make_batch(
        1, base_offset=2, leader_epoch=6, producer_id=1, producer_epoch=0, base_sequence=7
    )
    assert log.append_with_offsets(memoryview(bytes(first) + bytes(second)), now_ms=NOW_MS) == 3
    assert log.leader_epochs.entries == [(4, 0), (6, 2)]
    assert log.producers.by_id[1].last_sequence == 7
    with pytest.raises(KafkaError, match="ends at 3"):
        log.append_with_offsets(first, now_ms=NOW_MS)


def test_a_topic_with_a_codec_asks_for_recompression(
    open_log: OpenLog, make_batch: MakeBatch
) -> None:
    assert not open_log().recompresses
    log = open_log(compression_type="zstd")
    assert log.needs_recompression(make_batch())
    assert not log.needs_recompression(make_batch(attributes=CODECS["zstd"]))
    append(log, recompress(make_batch(), log.config))
    assert open_log(compression_type="uncompressed").needs_recompression(make_batch(attributes=1))
