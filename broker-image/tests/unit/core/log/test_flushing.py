from collections.abc import Callable

from pykraft.core.log.partition_log import PartitionLog

NOW_MS = 1_700_000_000_000
OpenLog = Callable[..., PartitionLog]
MakeBatch = Callable[..., memoryview]


def append(log: PartitionLog, batch: memoryview, count: int = 1) -> None:
    for _ in range(count):
        log.append(batch, leader_epoch=0, now_ms=NOW_MS)


def flush(log: PartitionLog, *, sealed_only: bool = False) -> None:
    found = log.begin_flush(sealed_only=sealed_only)
    assert found is not None
    found.run()
    log.finish_flush(found, NOW_MS)


def test_a_flush_moves_the_recovery_point_to_the_end(
    open_log: OpenLog, make_batch: MakeBatch
) -> None:
    log = open_log()
    append(log, make_batch(), 3)
    flush(log)
    assert log.recovery_point == 3
    assert log.begin_flush() is None


def test_after_a_roll_the_sealed_segment_is_to_be_flushed(
    open_log: OpenLog, make_batch: MakeBatch
) -> None:
    log = open_log()
    append(log, make_batch())
    flush(log)
    append(log, make_batch())
    assert not log.needs_flush(NOW_MS)
    log.roll(NOW_MS)
    append(log, make_batch())
    assert log.needs_flush(NOW_MS)
    flush(log, sealed_only=True)
    assert log.recovery_point == 2
    assert not log.needs_flush(NOW_MS)


def test_flushes_are_due_by_messages_and_by_time(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log(flush_messages=3, flush_ms=1000)
    append(log, make_batch())
    flush(log)
    assert not log.needs_flush(NOW_MS + 5000)
    append(log, make_batch(), 2)
    assert not log.needs_flush(NOW_MS + 999)
    assert log.needs_flush(NOW_MS + 1000)
    append(log, make_batch())
    assert log.needs_flush(NOW_MS)


def test_what_was_appended_meanwhile_is_not_counted_as_flushed(
    open_log: OpenLog, make_batch: MakeBatch
) -> None:
    log = open_log()
    append(log, make_batch())
    found = log.begin_flush()
    assert found is not None
    append(log, make_batch())
    found.run()
    log.finish_flush(found, NOW_MS)
    assert log.recovery_point == 1


def test_a_truncation_meanwhile_makes_a_flush_worthless(
    open_log: OpenLog, make_batch: MakeBatch
) -> None:
    log = open_log()
    append(log, make_batch(), 4)
    found = log.begin_flush()
    assert found is not None
    log.truncate_to(2, now_ms=NOW_MS)
    append(log, make_batch(), 4)
    found.run()
    log.finish_flush(found, NOW_MS)
    assert log.recovery_point == 0


def test_segments_deleted_before_the_worker_came_are_no_error(
    open_log: OpenLog, make_batch: MakeBatch, disk: object
) -> None:
    log = open_log()
    append(log, make_batch())
    log.roll(NOW_MS)
    found = log.begin_flush(sealed_only=True)
    assert found is not None
    log.delete_records_before(1)
    log.enforce_retention(NOW_MS)
    found.run()
    log.finish_flush(found, NOW_MS)
    assert log.recovery_point == 1
