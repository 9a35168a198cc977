import zlib
from collections.abc import Callable

import pytest
from log_look_ups import offset_for_timestamp

from pykraft.core.log.partition_log import PartitionLog
from pykraft.core.storage import Disk, StorageError
from pykraft.ids import Uuid
from pykraft.protocol.errors import ErrorCode, KafkaError
from pykraft.records.records import Record, build_batch
from pykraft.runtime.disk import RealDisk

NOW_MS = 1_700_000_000_000
OpenLog = Callable[..., PartitionLog]
MakeBatch = Callable[..., memoryview]
SMALL = {"segment_bytes": 1100, "index_interval_bytes": 300}
LAST = "t-0/00000000000000000018"


@pytest.fixture
def written(open_log: OpenLog, make_batch: MakeBatch) -> PartitionLog:
    """Eight batches of three records in three segments, by one idempotent producer."""
    log = open_log(**SMALL)
    for at in range(8):
        batch = make_batch(
            3,
            value=bytes(80),
            timestamp_ms=NOW_MS + at,
            producer_id=7,
            producer_epoch=0,
            base_sequence=3 * at,
        )
        log.append(batch, leader_epoch=at // 4, now_ms=NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 9, 18]
    return log


def damage(disk: Disk, path: str, change: Callable[[bytes], bytes]) -> None:
    disk.write_atomically(path, change(disk.read(path)))


def check(log: PartitionLog, end_offset: int) -> None:
    """The log ends there, every offset is found, and the producer may go on."""
    assert log.log_end_offset == end_offset
    for offset in range(end_offset):
        found = log.read(offset, 1, end_offset=end_offset, at_least_one=True)
        assert found is not None
        base = int.from_bytes(found.file.read_at(found.position, 8), "big")
        assert base == offset - offset % 3
        assert offset_for_timestamp(log, NOW_MS + offset // 3) == (
            NOW_MS + offset // 3,
            base,
            log.leader_epochs.epoch_for(base),
        )
    assert log.producers.by_id[7].last_sequence == end_offset - 1
    assert log.leader_epochs.entries == [(0, 0), (1, 12)][: 1 if end_offset <= 12 else 2]


def test_a_clean_stop_is_believed(open_log: OpenLog, written: PartitionLog) -> None:
    written.close(clean=True)
    assert written.recovery_point == 24
    log = open_log(**SMALL, recovery_point=24)
    check(log, 24)
    assert len(log.segments) == 3
    assert log.recovered is None


def test_a_killed_process_loses_nothing(open_log: OpenLog, written: PartitionLog) -> None:
    log = open_log(**SMALL, clean=False)
    check(log, 24)
    assert log.recovered is None


@pytest.mark.parametrize("cut", [1, 60, 200])
def test_a_torn_batch_at_the_end_is_cut_off(
    open_log: OpenLog, disk: RealDisk, written: PartitionLog, cut: int
) -> None:
    damage(disk, LAST + ".log", lambda data: data[:-cut])
    log = open_log(**SMALL, clean=False)
    check(log, 21)
    size = log.segments[-1].size
    assert disk.size_of(LAST + ".log") == size
    assert log.recovered == (
        f"cut {size - cut} bytes from {LAST}.log at position {size}"
        "; rebuilt the indexes of 3 segments"
    )


def test_what_a_clean_stop_left_and_cannot_be_read_is_cut_off_and_reported(
    open_log: OpenLog, disk: RealDisk, written: PartitionLog
) -> None:
    written.close(clean=True)
    for name in disk.list("t-0"):
        # What is left of the producers is then in the batches alone.
        if name.endswith(".snapshot") and "24" not in name:
            disk.delete(f"t-0/{name}")
    damage(disk, LAST + ".log", lambda data: data[:-7])
    log = open_log(**SMALL, recovery_point=24)
    check(log, 21)
    assert log.recovered is not None
    assert log.recovered.startswith("cut ")
    assert f" bytes from {LAST}.log at position {log.segments[-1].size};" in log.recovered


def test_indexes_that_are_not_as_a_clean_stop_leaves_them_are_reported(
    open_log: OpenLog, disk: RealDisk, written: PartitionLog
) -> None:
    written.close(clean=True)
    disk.delete(LAST + ".index")
    log = open_log(**SMALL, recovery_point=24)
    assert log.recovered == "rebuilt the indexes of 1 segments"


@pytest.mark.parametrize("tail", [bytes(5), bytes(5000), b"\xff" * 300, b"garbage " * 20])
def test_garbage_after_the_last_batch_is_cut_off(
    open_log: OpenLog, disk: RealDisk, written: PartitionLog, tail: bytes
) -> None:
    damage(disk, LAST + ".log", lambda data: data + tail)
    check(open_log(**SMALL, clean=False), 24)


def test_a_changed_bit_ends_the_log_and_later_segments_go(
    open_log: OpenLog, disk: RealDisk, written: PartitionLog
) -> None:
    path = "t-0/00000000000000000009.log"
    damage(disk, path, lambda data: data[:500] + bytes([data[500] ^ 1]) + data[501:])
    log = open_log(**SMALL, clean=False)
    check(log, 12)
    assert log.recovered is not None
    assert " from t-0/00000000000000000009.log at " in log.recovered
    assert "; dropped 1 segments;" in log.recovered
    assert not any(name.startswith("00000000000000000018.") for name in disk.list("t-0"))


def test_what_is_before_the_recovery_point_is_not_read(
    open_log: OpenLog, disk: RealDisk, written: PartitionLog
) -> None:
    path = "t-0/00000000000000000000.log"
    damage(disk, path, lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:])
    log = open_log(**SMALL, clean=False, recovery_point=9)
    assert log.log_end_offset == 24


def test_a_segment_that_lost_its_end_between_two_batches_ends_a_gapless_log(
    disk: RealDisk, written: PartitionLog
) -> None:
    path = "t-0/00000000000000000009.log"
    damage(disk, path, lambda data: data[: len(data) * 2 // 3])
    log = PartitionLog.open(disk, "t-0", written.config, now_ms=NOW_MS, clean=False, gapless=True)
    check(log, 15)
    assert log.recovered == "dropped 1 segments; rebuilt the indexes of 2 segments"


def test_segments_behind_a_gap_are_kept_and_the_gap_is_reported(
    open_log: OpenLog, disk: RealDisk, written: PartitionLog
) -> None:
    path = "t-0/00000000000000000009.log"
    damage(disk, path, lambda data: data[: len(data) * 2 // 3])
    log = open_log(**SMALL, clean=False)
    assert [segment.base_offset for segment in log.segments] == [0, 9, 18]
    assert log.log_end_offset == 24
    found = log.read(15, 1, end_offset=24, at_least_one=True)
    assert found is not None
    assert int.from_bytes(found.file.read_at(found.position, 8), "big") == 18
    assert log.recovered == ("no batch has the offsets 15 to 17; rebuilt the indexes of 3 segments")


def test_what_was_lost_in_a_gap_is_not_known_of_producers(
    open_log: OpenLog, disk: RealDisk, make_batch: MakeBatch
) -> None:
    log = open_log(**SMALL)
    for at, producer_id in enumerate((7, 8, 9)):
        batch = make_batch(
            3, value=bytes(80), producer_id=producer_id, producer_epoch=0, base_sequence=0
        )
        log.append(batch, leader_epoch=0, now_ms=NOW_MS)
        if at == 1:
            log.roll(NOW_MS)
    damage(disk, "t-0/00000000000000000000.log", lambda data: data[: len(data) // 2])
    assert sorted(open_log(**SMALL, clean=False).producers.by_id) == [7, 9]


def test_a_gap_that_compaction_may_have_left_is_nothing_to_report(
    open_log: OpenLog, disk: RealDisk, written: PartitionLog
) -> None:
    disk.delete("t-0/00000000000000000009.log")
    log = open_log(**SMALL, clean=False, cleanup_policy=frozenset({"compact"}))
    assert log.log_end_offset == 24
    assert log.recovered is None


def old_message(magic: int, value: bytes = b"value") -> bytes:
    """As clients of before batches wrote it: checksum, magic, attributes, time, key, value."""
    body = bytes([magic, 0]) + (bytes(8) if magic else b"") + b"\xff" * 4
    body += len(value).to_bytes(4, "big") + value
    message = zlib.crc32(body).to_bytes(4, "big") + body
    return (24).to_bytes(8, "big") + len(message).to_bytes(4, "big") + message


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("size", [5, 5000])
def test_messages_of_an_older_format_are_refused_and_never_cut_off(
    open_log: OpenLog, disk: RealDisk, written: PartitionLog, clean: bool, magic: int, size: int
) -> None:
    written.close(clean=True)
    damage(disk, LAST + ".log", lambda data: data + old_message(magic, bytes(size)))
    before = disk.read(LAST + ".log")
    with pytest.raises(StorageError, match=f"{LAST}.log: at position .* format {magic}"):
        open_log(**SMALL, clean=clean)
    assert disk.read(LAST + ".log") == before


def test_what_only_looks_like_an_older_format_is_cut_off_after_a_crash_alone(
    open_log: OpenLog, disk: RealDisk, written: PartitionLog
) -> None:
    written.close(clean=True)
    torn = old_message(0, b"x" * 200)[:17] + bytes(300)
    damage(disk, LAST + ".log", lambda data: data + torn)
    with pytest.raises(StorageError, match="format 0"):
        open_log(**SMALL)
    check(open_log(**SMALL, clean=False), 24)


def test_reading_an_older_format_is_refused_for_the_partition_alone(
    open_log: OpenLog, disk: RealDisk, written: PartitionLog
) -> None:
    written.close(clean=True)
    damage(disk, "t-0/00000000000000000000.log", lambda data: old_message(1, bytes(900)))
    log = open_log(**SMALL)
    asks: list[Callable[[], object]] = [
        lambda: log.read(0, 1, end_offset=24, at_least_one=True),
        lambda: offset_for_timestamp(log, NOW_MS),
    ]
    for ask in asks:
        with pytest.raises(KafkaError) as caught:
            ask()
        assert caught.value.code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("segment", [0, 9, 18])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"",
        lambda data: data[:-3],
        lambda data: data + bytes(120),
        lambda data: bytes(10_485_756),
        lambda data: b"\x7f" * 96,
    ],
    ids=["empty", "cut", "zeros", "preallocated", "garbage"],
)
def test_a_damaged_index_is_built_anew(
    open_log: OpenLog,
    disk: RealDisk,
    written: PartitionLog,
    suffix: str,
    segment: int,
    clean: bool,
    change: Callable[[bytes], bytes],
) -> None:
    written.close(clean=True)
    path = f"t-0/{segment:020}{suffix}"
    damage(disk, path, change)
    check(open_log(**SMALL, clean=clean, recovery_point=24 if clean else 0), 24)


@pytest.mark.parametrize("clean", [True, False])
def test_absent_indexes_are_built_anew(
    open_log: OpenLog, disk: RealDisk, written: PartitionLog, clean: bool
) -> None:
    written.close(clean=True)
    for name in disk.list("t-0"):
        if name.endswith("index"):
            disk.delete(f"t-0/{name}")
    check(open_log(**SMALL, clean=clean), 24)


def test_a_damaged_snapshot_is_replaced_by_an_older_one_and_the_batches_after_it(
    open_log: OpenLog, disk: RealDisk, written: PartitionLog
) -> None:
    damage(disk, LAST + ".snapshot", lambda data: data[:-1])
    check(open_log(**SMALL, clean=False), 24)


def test_lost_epochs_are_read_from_the_batches(
    open_log: OpenLog, disk: RealDisk, written: PartitionLog
) -> None:
    written.close(clean=True)
    disk.write_atomically("t-0/leader-epoch-checkpoint", b"")
    check(open_log(**SMALL, clean=False, recovery_point=24), 24)


def test_leftovers_of_deletion_and_compaction_are_removed(
    open_log: OpenLog, disk: RealDisk, written: PartitionLog
) -> None:
    written.close(clean=True)
    for name in (
        "00000000000000000003.log.deleted",
        "00000000000000000009.log.cleaned",
        "00000000000000000009.log.swap",
        "00000000000000000009.index.swap",
        "00000000000000000077.index",
        "leader-epoch-checkpoint.tmp",
    ):
        disk.write_atomically(f"t-0/{name}", b"left")
    check(open_log(**SMALL), 24)
    left = ("deleted", "cleaned", "swap", "tmp", "77.index")
    assert not [name for name in disk.list("t-0") if name.endswith(left)]


def test_a_compaction_that_was_decided_is_finished(
    open_log: OpenLog, disk: RealDisk, written: PartitionLog
) -> None:
    written.close(clean=True)
    compacted = build_batch([Record(b"k", b"new")], base_offset=17, timestamp_ms=NOW_MS)
    disk.write_atomically("t-0/00000000000000000000.log.swap", compacted)
    log = open_log(**SMALL, cleanup_policy=frozenset({"compact"}))
    assert [segment.base_offset for segment in log.segments] == [0, 18]
    found = log.read(2, 10**6, end_offset=24, at_least_one=True)
    assert found is not None
    assert found.size == len(compacted)


def test_a_log_start_past_the_end_begins_an_empty_log_there(
    open_log: OpenLog, written: PartitionLog
) -> None:
    log = open_log(**SMALL, clean=False, log_start_offset=30)
    assert (log.log_start_offset, log.log_end_offset) == (30, 30)
    assert [segment.base_offset for segment in log.segments] == [30]
    assert log.recovered is not None
    assert log.recovered.startswith("began anew at the log start 30, past the end; dropped 3 ")


def test_a_log_without_its_first_segment_starts_at_the_second(
    open_log: OpenLog, disk: RealDisk, written: PartitionLog
) -> None:
    disk.delete("t-0/00000000000000000000.log")
    log = open_log(**SMALL, clean=False)
    assert (log.log_start_offset, log.log_end_offset) == (9, 24)


def test_a_clean_stop_of_an_unchanged_log_writes_nothing(
    open_log: OpenLog, disk: RealDisk, written: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    written.close(clean=True)
    log = open_log(**SMALL, recovery_point=24)
    monkeypatch.setattr(RealDisk, "write_atomically", None)
    monkeypatch.setattr(RealDisk, "sync_dir", None)
    log.close(clean=True)


def test_the_topic_id_is_kept_and_another_one_refused(disk: RealDisk, open_log: OpenLog) -> None:
    def open_as(topic_id: bytes | None) -> PartitionLog:
        return PartitionLog.open(
            disk,
            "t-0",
            open_log().config,
            now_ms=NOW_MS,
            clean=True,
            topic_id=Uuid(topic_id) if topic_id else None,
        )

    assert open_as(b"0123456789abcdef").topic_id == b"0123456789abcdef"
    expected = b"version: 0\ntopic_id: MDEyMzQ1Njc4OWFiY2RlZg"
    assert disk.read("t-0/partition.metadata") == expected
    assert open_as(None).topic_id == b"0123456789abcdef"
    with pytest.raises(KafkaError) as caught:
        open_as(b"another-topic-id")
    assert caught.value.code == ErrorCode.INCONSISTENT_TOPIC_ID
