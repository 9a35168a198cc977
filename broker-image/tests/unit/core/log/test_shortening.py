"""Retention, DeleteRecords and truncation."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pykraft.core.log.partition_log import PartitionLog
from pykraft.protocol.errors import KafkaError
from pykraft.runtime.disk import RealDisk

NOW_MS = 1_700_000_000_000
OpenLog = Callable[..., PartitionLog]
MakeBatch = Callable[..., memoryview]


def filled(open_log: OpenLog, make_batch: MakeBatch, **config: object) -> PartitionLog:
    """Ten batches of one record a second apart, two to a segment."""
    log = open_log(segment_bytes=600, **config)
    for at in range(10):
        batch = make_batch(
            value=bytes(200),
            timestamp_ms=NOW_MS + 1000 * at,
            producer_id=1,
            producer_epoch=0,
            base_sequence=at,
        )
        log.append(batch, leader_epoch=at // 3, now_ms=NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4, 6, 8]
    return log


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_segments_go_when_their_latest_record_is_too_old(
    open_log: OpenLog, make_batch: MakeBatch, disk: RealDisk
) -> None:
    log = filled(open_log, make_batch, retention_ms=10_000)
    assert log.enforce_retention(NOW_MS + 11_000) == []
    gone = log.enforce_retention(NOW_MS + 13_001)
    assert bases(log) == [4, 6, 8]
    assert log.log_start_offset == 4
    assert log.leader_epochs.entries[0] == (1, 4)
    assert log.size == sum(segment.size for segment in log.segments)
    assert all(path.endswith(".deleted") and disk.exists(path) for path in gone)
    assert len([path for path in gone if path.endswith(".log.deleted")]) == 2


def test_segments_without_times_go_when_their_files_are_too_old(
    open_log: OpenLog, make_batch: MakeBatch, tmp_path: Path
) -> None:
    log = open_log(segment_bytes=600, retention_ms=10_000)
    for _ in range(6):
        batch = make_batch(value=bytes(200), timestamp_ms=-1)
        log.append(batch, leader_epoch=0, now_ms=NOW_MS)
    for at, base in enumerate(bases(log)):
        written_ns = (NOW_MS + 1000 * at) * 10**6
        os.utime(tmp_path / f"t-0/{base:020}.log", ns=(written_ns, written_ns))
    log.enforce_retention(NOW_MS + 10_000)
    assert bases(log) == [0, 2, 4]
    log.enforce_retention(NOW_MS + 10_001)
    assert bases(log) == [2, 4]
    log.enforce_retention(NOW_MS + 20_000)
    assert bases(log) == [6]


def test_when_all_is_too_old_a_new_segment_is_begun(
    open_log: OpenLog, make_batch: MakeBatch
) -> None:
    log = filled(open_log, make_batch, retention_ms=10_000)
    log.enforce_retention(NOW_MS + 100_000)
    assert bases(log) == [10]
    assert (log.log_start_offset, log.log_end_offset, log.size) == (10, 10, 0)
    assert log.enforce_retention(NOW_MS + 200_000) == []
    assert log.producers.by_id[1].last_sequence == 9


def test_segments_go_when_the_log_stays_large_enough_without_them(
    open_log: OpenLog, make_batch: MakeBatch
) -> None:
    log = filled(open_log, make_batch)
    segment_bytes = log.segments[0].size
    log.configure(open_log(retention_bytes=3 * segment_bytes + 1).config)
    log.enforce_retention(NOW_MS)
    assert bases(log) == [2, 4, 6, 8]


def test_nothing_above_the_high_watermark_goes(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = filled(open_log, make_batch, retention_bytes=0)
    log.enforce_retention(NOW_MS, high_watermark=5)
    assert bases(log) == [4, 6, 8]


def test_without_the_policy_only_the_log_start_counts(
    open_log: OpenLog, make_batch: MakeBatch
) -> None:
    log = filled(open_log, make_batch, retention_bytes=0)
    log.configure(open_log(retention_bytes=0, cleanup_policy=frozenset({"compact"})).config)
    log.delete_records_before(5)
    assert log.log_start_offset == 5
    log.enforce_retention(NOW_MS + 10**12)
    assert bases(log) == [4, 6, 8]


def test_records_before_the_log_start_are_out_of_range(
    open_log: OpenLog, make_batch: MakeBatch
) -> None:
    log = filled(open_log, make_batch)
    log.delete_records_before(5)
    log.delete_records_before(3)
    with pytest.raises(KafkaError):
        log.read(4, 1, end_offset=10, at_least_one=True)
    with pytest.raises(KafkaError):
        log.delete_records_before(11)
    log.delete_records_before(10)
    log.enforce_retention(NOW_MS)
    assert bases(log) == [8]


@pytest.mark.parametrize("end", range(10))
def test_a_truncated_log_is_as_if_the_rest_had_never_been(
    open_log: OpenLog, make_batch: MakeBatch, end: int
) -> None:
    log = filled(open_log, make_batch, index_interval_bytes=0)
    log.truncate_to(end, now_ms=NOW_MS)
    assert log.log_end_offset == end
    assert log.size == sum(segment.size for segment in log.segments)
    assert bases(log) == [base for base in (0, 2, 4, 6, 8) if base <= end]
    assert log.leader_epochs.entries == [e for e in ((0, 0), (1, 3), (2, 6), (3, 9)) if e[1] < end]
    if end:
        assert log.producers.by_id[1].last_sequence == end - 1
    batch = make_batch(producer_id=1, producer_epoch=0, base_sequence=end)
    assert log.append(batch, leader_epoch=9, now_ms=NOW_MS).first_offset == end
    assert open_log(clean=False).log_end_offset == end + 1


def test_truncating_within_a_batch_takes_the_whole_batch(
    open_log: OpenLog, make_batch: MakeBatch
) -> None:
    log = open_log()
    for _ in range(3):
        log.append(make_batch(4), leader_epoch=0, now_ms=NOW_MS)
    log.truncate_to(6, now_ms=NOW_MS)
    assert log.log_end_offset == 4


def test_a_log_may_begin_anew_somewhere_else(
    open_log: OpenLog, make_batch: MakeBatch, disk: RealDisk
) -> None:
    log = filled(open_log, make_batch)
    gone = log.truncate_fully_and_start_at(500, now_ms=NOW_MS)
    assert (log.log_start_offset, log.log_end_offset, bases(log)) == (500, 500, [500])
    assert log.leader_epochs.entries == []
    assert not log.producers.by_id
    assert all(disk.exists(path) for path in gone)
    assert open_log(clean=False).log_end_offset == 500
