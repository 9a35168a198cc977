from collections.abc import Callable

import pytest

from pykraft.core.log.flushing import Flush
from pykraft.core.log.partition_log import PartitionLog
from pykraft.runtime.disk import RealDisk

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


def at_two(batch: memoryview) -> memoryview:
    """The same batch at offset 2."""
    return memoryview((2).to_bytes(8, "big") + batch[8:])


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


def test_a_folder_renamed_before_the_worker_came_is_no_error(
    open_log: OpenLog, make_batch: MakeBatch, disk: RealDisk
) -> None:
    log = open_log()
    append(log, make_batch())
    found = log.begin_flush()
    assert found is not None
    log.close(clean=False)
    disk.rename("t-0", "t-0.deleted")
    found.run()
    log.finish_flush(found, NOW_MS)


def test_a_closed_log_has_nothing_to_flush(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log(flush_messages=1)
    append(log, make_batch())
    assert log.needs_flush(NOW_MS)
    log.close(clean=False)
    assert not log.needs_flush(NOW_MS)
    assert log.begin_flush() is None
    assert log.recovery_point == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda log, batch: log.append(batch, leader_epoch=0, now_ms=NOW_MS),
        lambda log, batch: log.append_with_offsets(at_two(batch), now_ms=NOW_MS),
        lambda log, batch: log.assign_epoch(1),
        lambda log, batch: log.roll(NOW_MS),
        lambda log, batch: log.delete_records_before(1),
        lambda log, batch: log.enforce_retention(NOW_MS),
        lambda log, batch: log.truncate_to(0, now_ms=NOW_MS),
        lambda log, batch: log.truncate_fully_and_start_at(5, now_ms=NOW_MS),
    ],
    ids=[
        "append",
        "replicate",
        "lead",
        "roll",
        "delete records",
        "retention",
        "truncate",
        "start over",
    ],
)
def test_a_closed_log_is_never_changed(
    open_log: OpenLog,
    make_batch: MakeBatch,
    disk: RealDisk,
    change: Callable[[PartitionLog, memoryview], object],
) -> None:
    log = open_log()
    append(log, make_batch(), 2)
    log.close(clean=True)
    before = {name: disk.read(f"t-0/{name}") for name in disk.list("t-0")}
    with pytest.raises(AssertionError):
        change(log, make_batch())
    assert {name: disk.read(f"t-0/{name}") for name in disk.list("t-0")} == before


def test_one_flush_at_a_time_so_that_the_recovery_point_passes_nothing_unsynced(
    open_log: OpenLog, make_batch: MakeBatch
) -> None:
    log = open_log()
    ended: list[int] = []
    log.on_flushed(lambda: ended.append(log.recovery_point))
    append(log, make_batch())
    log.roll(NOW_MS)
    first = log.begin_flush(sealed_only=True)
    assert first is not None
    append(log, make_batch())
    assert log.begin_flush() is None
    assert log.is_flushing
    log.finish_flush(first, NOW_MS)
    assert ended == [1]
    flush(log)
    assert ended == [1, 2]


def test_a_clean_close_syncs_also_what_a_flush_has_not_finished(
    open_log: OpenLog, make_batch: MakeBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log()
    append(log, make_batch())
    log.roll(NOW_MS)
    unfinished = log.begin_flush(sealed_only=True)
    append(log, make_batch())
    synced: list[Flush] = []

    def sync(flush: Flush) -> None:
        synced.append(flush)

    monkeypatch.setattr(Flush, "run", sync)
    log.close(clean=True)
    assert synced[0] is unfinished
    assert [flush.end_offset for flush in synced] == [1, 2]
