import gc
import os
from collections.abc import Callable

import crc32c
import pytest
from log_look_ups import max_timestamp, offset_for_timestamp

from pykraft.core.log.files import OpenFiles
from pykraft.core.log.partition_log import FileSlice, PartitionLog
from pykraft.core.storage import StorageError
from pykraft.protocol.errors import ErrorCode, KafkaError
from pykraft.records.batch import read_header
from pykraft.records.records import Record, build_batch
from pykraft.runtime.disk import RealDisk

NOW_MS = 1_700_000_000_000
OpenLog = Callable[..., PartitionLog]
MakeBatch = Callable[..., memoryview]


@pytest.fixture
def log(open_log: OpenLog, make_batch: MakeBatch) -> PartitionLog:
    """Twenty batches of three records, three batches to a segment."""
    opened = open_log(segment_bytes=1100, index_interval_bytes=300)
    for at in range(20):
        batch = make_batch(3, value=bytes(80), timestamp_ms=NOW_MS + at)
        opened.append(batch, leader_epoch=at // 5, now_ms=NOW_MS)
    assert len(opened.segments) == 7
    return opened


def offsets(found: FileSlice | None) -> list[int]:
    """The base offsets of the whole batches in a slice."""
    assert found is not None
    data, position, bases = found.file.read_at(found.position, found.size), 0, []
    while position + 61 <= len(data) and position + read_header(data, position).size <= len(data):
        bases.append(read_header(data, position).base_offset)
        position += read_header(data, position).size
    return bases


@pytest.mark.parametrize("offset", range(60))
def test_a_read_begins_with_the_batch_that_has_the_offset(log: PartitionLog, offset: int) -> None:
    found = log.read(offset, 10**6, end_offset=60, at_least_one=True)
    base = offset - offset % 3
    assert offsets(found) == list(range(base, min(base - base % 9 + 9, 60), 3))


@pytest.mark.parametrize("end", range(46, 61))
def test_a_read_never_reaches_the_end_offset(log: PartitionLog, end: int) -> None:
    found = log.read(45, 10**6, end_offset=end, at_least_one=True)
    expected = [base for base in range(45, 54, 3) if base + 3 <= end]
    assert (offsets(found) if found else []) == expected


def test_there_is_nothing_at_the_end(log: PartitionLog) -> None:
    assert log.read(60, 10**6, end_offset=60, at_least_one=True) is None
    assert log.read(50, 10**6, end_offset=50, at_least_one=True) is None


@pytest.mark.parametrize("offset", [-1, 61, 10**9])
def test_an_offset_out_of_range_is_refused(log: PartitionLog, offset: int) -> None:
    with pytest.raises(KafkaError) as caught:
        log.read(offset, 10**6, end_offset=60, at_least_one=True)
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_batch_larger_than_asked_comes_only_when_one_must_come(log: PartitionLog) -> None:
    assert log.read(0, 10, end_offset=60, at_least_one=False) is None
    whole = log.read(0, 10, end_offset=60, at_least_one=True)
    assert offsets(whole) == [0]
    assert whole is not None
    assert whole.size == read_header(whole.file.read_at(0, 61)).size
    cut = log.read(0, whole.size + 10, end_offset=60, at_least_one=False)
    assert cut is not None
    assert cut.size == whole.size + 10


def test_a_reader_that_follows_the_end_needs_no_search(
    log: PartitionLog, make_batch: MakeBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.read(57, 10**6, end_offset=60, at_least_one=True)
    for _ in range(2):
        log.append(make_batch(), leader_epoch=4, now_ms=NOW_MS)
    monkeypatch.setattr("pykraft.core.log.segment.walk", None)
    assert offsets(log.read(60, 10**6, end_offset=62, at_least_one=True)) == [60, 61]
    assert offsets(log.read(61, 10**6, end_offset=62, at_least_one=True)) == [61]
    assert offsets(log.read(60, 10**6, end_offset=61, at_least_one=True)) == [60]


def test_the_first_record_at_or_after_a_time_is_found(log: PartitionLog) -> None:
    assert offset_for_timestamp(log, 0) == (NOW_MS, 0, 0)
    assert offset_for_timestamp(log, NOW_MS + 7) == (NOW_MS + 7, 21, 1)
    assert offset_for_timestamp(log, NOW_MS + 19) == (NOW_MS + 19, 57, 3)
    assert offset_for_timestamp(log, NOW_MS + 20) is None
    log.delete_records_before(22)
    assert offset_for_timestamp(log, NOW_MS + 7) == (NOW_MS + 7, 22, 1)


def test_times_are_found_within_a_batch_also_when_they_are_not_in_order(open_log: OpenLog) -> None:
    log = open_log()
    stamps = (5, 9, 3, 9, 7)
    records = [Record(b"k", b"v", (), NOW_MS + stamp) for stamp in stamps]
    log.append(
        memoryview(build_batch(records, timestamp_ms=NOW_MS, attributes=1)),
        leader_epoch=0,
        now_ms=NOW_MS,
    )
    assert offset_for_timestamp(log, NOW_MS + 6) == (NOW_MS + 9, 1, 0)
    assert max_timestamp(log) == (NOW_MS + 9, 1, 0)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_batch_that_cannot_be_unpacked_is_found_by_what_its_header_says(
    open_log: OpenLog, make_batch: MakeBatch, codec: int
) -> None:
    log = open_log()
    log.append(make_batch(), leader_epoch=0, now_ms=NOW_MS)
    poison = bytearray(make_batch(5, timestamp_ms=NOW_MS + 9))
    poison[22] = codec
    poison[61:] = bytes(reversed(range(len(poison) - 61)))
    poison[17:21] = crc32c.crc32c(poison[21:]).to_bytes(4, "big")
    log.append(memoryview(poison), leader_epoch=0, now_ms=NOW_MS)
    log.append(make_batch(timestamp_ms=NOW_MS + 8), leader_epoch=0, now_ms=NOW_MS)
    assert offset_for_timestamp(log, NOW_MS) == (NOW_MS, 0, 0)
    assert offset_for_timestamp(log, NOW_MS + 8) == (NOW_MS + 9, 1, 0)
    assert max_timestamp(log) == (NOW_MS + 9, 1, 0)
    log.delete_records_before(3)
    assert offset_for_timestamp(log, NOW_MS + 8) == (NOW_MS + 9, 3, 0)


def test_an_empty_log_has_no_times(open_log: OpenLog) -> None:
    assert max_timestamp(open_log()) is None
    assert offset_for_timestamp(open_log(), 0) is None


def test_a_slice_stays_readable_when_its_segment_is_deleted(
    log: PartitionLog, disk: RealDisk
) -> None:
    found = log.read(0, 10**6, end_offset=60, at_least_one=True)
    log.delete_records_before(30)
    for path in log.enforce_retention(NOW_MS):
        disk.delete(path)
    assert offsets(found) == [0, 3, 6]


@pytest.mark.parametrize(
    "ask",
    [
        lambda log: log.read(4, 10**6, end_offset=60, at_least_one=True),
        lambda log: offset_for_timestamp(log, NOW_MS + 1),
    ],
    ids=["read", "look up"],
)
def test_a_segment_whose_file_is_gone_is_a_failure_of_the_disk(
    log: PartitionLog, disk: RealDisk, ask: Callable[[PartitionLog], object]
) -> None:
    disk.delete("t-0/00000000000000000000.log")
    with pytest.raises(StorageError, match=r"00000000000000000000\.log"):
        ask(log)


def test_open_files_are_bounded_and_closed_when_nobody_reads(
    disk: RealDisk, open_log: OpenLog
) -> None:
    def descriptors() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    before = descriptors()
    files = OpenFiles(disk, limit=3)
    for at in range(10):
        disk.write_atomically(f"f{at}", b"x")
        held = files.get(f"f{at}")
    assert len(files) == 3
    assert descriptors() == before + 3
    for at in range(10):
        files.forget(f"f{at}")
    assert held.read_at(0, 1) == b"x"
    assert descriptors() == before + 1
    del held
    assert descriptors() == before
