"""The real partition log on a disk that fails: whatever happened, what it then says is true.

SEED=17 pytest tests/sim/test_log_seeds.py      replays one seed
SEEDS=5000 pytest tests/sim/test_log_seeds.py   tries many
"""

import importlib.util
import os
from bisect import bisect_right
from pathlib import Path
from random import Random
from types import ModuleType
from typing import NamedTuple

import pytest
from log_look_ups import offset_for_timestamp

from pykraft.core.log.config import LogConfig
from pykraft.core.log.flushing import Flush
from pykraft.core.log.partition_log import PartitionLog
from pykraft.core.log.producer_state import ProducerState
from pykraft.core.storage import AbsentError, StorageError
from pykraft.ids import Uuid
from pykraft.records.batch import read_header
from pykraft.records.records import Record, build_batch, iterate


def _sibling(name: str) -> ModuleType:
    """Test folders are no packages, so that a neighbour is loaded by its path."""
    spec = importlib.util.spec_from_file_location(
        f"sim_{name}", Path(__file__).parent / f"{name}.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SimDisk = _sibling("disk").SimDisk

STEPS = 120
NAME = "t-0"
TOPIC_ID = Uuid(bytes(range(16)))
START_MS = 1_700_000_000_000


class Stored(NamedTuple):
    """What the log was given and must give back."""

    first_offset: int
    last_offset: int
    data: bytes


class World:
    """The log under test, and what is known to be true of it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = SimDisk()
        self.now_ms = START_MS
        self.epoch = 0
        # As the metadata log is opened, or as a topic's.
        self.gapless = self.random.random() < 0.5
        self.config = LogConfig(
            segment_bytes=self.random.choice((600, 2_000, 10_000)),
            index_interval_bytes=self.random.choice((0, 100, 1_000)),
            segment_ms=self.random.choice((50, 10_000)),
            segment_index_bytes=self.random.choice((48, 10_000)),
            message_timestamp_type=self.random.choice(
                ("CreateTime", "CreateTime", "LogAppendTime")
            ),
            message_timestamp_after_max_ms=10**12,
        )
        self.stored: list[Stored] = []
        self.sequences: dict[int, tuple[int, int, bytes, int]] = {}
        # What the two checkpoint files say.
        self.saved_recovery_point = 0
        self.saved_log_start = 0
        # The highest log start ever; after a crash it may be lower again.
        self.log_start_reached = 0
        self.flush: Flush | None = None
        self.log = self.open(clean=True)

    def open(self, *, clean: bool) -> PartitionLog:
        return PartitionLog.open(
            self.disk,
            NAME,
            self.config,
            now_ms=self.now_ms,
            clean=clean,
            recovery_point=self.saved_recovery_point,
            log_start_offset=self.saved_log_start,
            topic_id=TOPIC_ID,
            gapless=self.gapless,
        )

    # What may happen

    def append(self) -> None:
        producer_id = self.random.choice((-1, -1, 1, 2, 3))
        producer_epoch, sequence = -1, -1
        if producer_id >= 0:
            producer_epoch, sequence, _, _ = self.sequences.get(producer_id, (0, 0, b"", 0))
            if self.random.random() < 0.05:
                producer_epoch, sequence = producer_epoch + 1, 0
        count = self.random.randint(1, 4)
        value = self.random.randbytes(self.random.choice((5, 60, 400)) // count)
        batch = build_batch(
            [Record(b"k", value, (), self.a_time()) for _ in range(count)],
            timestamp_ms=self.now_ms,
            attributes=self.random.choice((0, 0, 0, 1)),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence,
        )
        end_offset, size = self.log.log_end_offset, self.log.size
        if self.random.random() < 0.05:
            self.disk.writes_until_failure = self.random.randint(0, 3)
        try:
            appended = self.log.append(
                memoryview(batch), leader_epoch=self.epoch, now_ms=self.now_ms
            )
        except StorageError:
            assert (self.log.log_end_offset, self.log.size) == (end_offset, size)
            return
        finally:
            self.disk.writes_until_failure = None
        assert not appended.duplicate
        assert appended.first_offset == end_offset
        assert appended.last_offset == end_offset + count - 1
        self.stored.append(Stored(appended.first_offset, appended.last_offset, batch))
        if producer_id >= 0:
            self.sequences[producer_id] = (producer_epoch, sequence + count, batch, end_offset)

    def append_again(self) -> None:
        known = [pid for pid, (_, _, batch, _) in sorted(self.sequences.items()) if batch]
        if not known:
            return
        _, _, batch, offset = self.sequences[self.random.choice(known)]
        again = self.log.append(memoryview(batch), leader_epoch=self.epoch, now_ms=self.now_ms)
        assert again.duplicate
        assert again.first_offset == offset

    def a_time(self) -> int:
        self.now_ms += self.random.choice((0, 1, 20))
        self.disk.now_ms = self.now_ms
        return self.now_ms + self.random.randint(-30, 30)

    def lead(self) -> None:
        self.epoch += self.random.randint(1, 3)
        self.log.assign_epoch(self.epoch)

    def roll(self) -> None:
        self.log.roll(self.now_ms)

    def begin_flush(self) -> None:
        self.finish_flush()
        self.flush = self.log.begin_flush(sealed_only=self.random.random() < 0.5)

    def finish_flush(self) -> None:
        if self.flush is not None:
            self.flush.run()
            self.log.finish_flush(self.flush, self.now_ms)
            self.flush = None

    def checkpoint(self) -> None:
        self.saved_recovery_point = self.log.recovery_point
        self.saved_log_start = self.log.log_start_offset

    def delete_records(self) -> None:
        at = self.random.randint(self.log.log_start_offset, self.log.log_end_offset)
        self.log.delete_records_before(at)
        self.saved_log_start = self.log.log_start_offset

    def retain(self) -> None:
        config = self.log.config
        sizes = (-1, self.log.size // 2, 0)
        self.log.configure(
            LogConfig.from_configs(
                {
                    **{
                        field.replace("_", "."): getattr(config, field)
                        for field in config.__slots__
                    },
                    "retention.bytes": self.random.choice(sizes),
                    "retention.ms": self.random.choice((-1, 200)),
                }
            )
        )
        for path in self.log.enforce_retention(self.now_ms):
            if self.random.random() < 0.5:
                self.disk.delete(path)
        self.log.configure(config)

    def truncate(self) -> None:
        ends = [s.first_offset for s in self.stored if s.first_offset >= self.log.log_start_offset]
        if not ends:
            return
        end_offset = self.random.choice(ends[-10:])
        # As a follower does: the checkpoint must never be ahead of the log.
        self.saved_recovery_point = min(self.saved_recovery_point, end_offset)
        self.log.truncate_to(end_offset, now_ms=self.now_ms)
        assert self.log.log_end_offset == end_offset
        self.forget_from(end_offset)
        self.epoch += 1
        self.check_producers()

    def stop_and_start(self) -> None:
        self.finish_flush()
        self.log.close(clean=True)
        self.checkpoint()
        before = self.log.log_end_offset
        self.log = self.open(clean=True)
        assert self.log.log_end_offset == before
        self.check_all()

    def kill(self) -> None:
        """The process dies; the kernel has everything."""
        before = self.log.log_end_offset
        self.flush = None
        self.log = self.open(clean=False)
        assert self.log.log_end_offset == before
        self.check_all()

    def lose_power(self) -> None:
        before = self.log
        if self.flush is not None and self.random.random() < 0.5:
            self.flush.run()
        self.flush = None
        self.disk.lose_power(self.random)
        self.log = self.open(clean=False)
        assert self.log.log_end_offset >= before.recovery_point
        assert self.log.log_end_offset <= max(before.log_end_offset, self.saved_log_start)
        assert self.log.topic_id == TOPIC_ID
        if self.log.log_end_offset == self.log.log_start_offset == self.saved_log_start:
            self.stored = [s for s in self.stored if s.last_offset < self.saved_log_start]
        if not self.gapless:
            self.accept_gaps(before.recovery_point)
        self.forget_from(self.log.log_end_offset)
        self.epoch += 1
        self.check_all()

    def accept_gaps(self, recovery_point: int) -> None:
        """What was not synced may be gone before what is there, but only from a segment's end."""
        present = {
            header.base_offset for segment in self.log.segments for _, header in segment.walk()
        }
        bases = [segment.base_offset for segment in self.log.segments]
        broken = -1
        for stored in self.stored:
            at = bisect_right(bases, stored.first_offset)
            if stored.first_offset in present:
                assert at != broken, f"a hole before {stored}"
            elif stored.first_offset >= self.log.log_start_offset:
                assert stored.last_offset >= recovery_point, f"{stored} was synced"
                broken = at
        self.stored = [s for s in self.stored if s.first_offset in present]

    def forget_from(self, end_offset: int) -> None:
        self.stored = [s for s in self.stored if s.last_offset < end_offset]
        self.sequences = {}
        for producer_id, producer in self.log.producers.by_id.items():
            batch = next(
                (s.data for s in self.stored if s.last_offset == producer.batches[-1].last_offset),
                b"",
            )
            self.sequences[producer_id] = (
                producer.epoch,
                producer.last_sequence + 1,
                batch,
                producer.batches[-1].first_offset,
            )

    # What must be true

    def check_all(self) -> None:
        self.check_batches()
        self.check_producers()
        for _ in range(3):
            self.check_an_offset()
            self.check_a_time()

    def check_batches(self) -> None:
        """Every batch from the log start on is there, whole, in order and as it was stored."""
        log = self.log
        offset = log.log_start_offset
        expected = [s for s in self.stored if s.last_offset >= offset]
        for stored in expected:
            found = log.read(offset, 1, end_offset=log.log_end_offset, at_least_one=True)
            assert found is not None
            data = found.file.read_at(found.position, found.size)
            self.check_batch(data, stored)
            offset = stored.last_offset + 1
        assert offset <= log.log_end_offset
        assert offset == log.log_end_offset or not self.gapless
        offset = log.log_end_offset
        assert log.read(offset, 1, end_offset=offset, at_least_one=True) is None

    def check_batch(self, data: bytes, stored: Stored) -> None:
        header = read_header(data)
        assert header.base_offset == stored.first_offset
        assert header.last_offset == stored.last_offset
        assert header.size == len(data)
        if self.config.message_timestamp_type == "CreateTime":
            assert data[16:] == stored.data[16:]
        else:
            assert data[61:] == stored.data[61:]
        # Segments that came back with the power may be older than what is known of epochs.
        epochs = self.log.leader_epochs
        if epochs.entries and header.base_offset >= epochs.entries[0][1]:
            assert epochs.epoch_for(header.base_offset) == header.leader_epoch
        else:
            assert header.base_offset < self.log_start_reached

    def check_producers(self) -> None:
        """What the log knows of producers is what its batches say, and what is deleted said."""
        log, replayed = self.log, ProducerState()
        for segment in log.segments:
            for _, header in segment.walk():
                replayed.observe(header)
        for producer_id, producer in log.producers.by_id.items():
            truth = replayed.by_id.pop(producer_id, None)
            if truth is None:
                assert producer.batches[-1].last_offset < log.first_segment_offset
                continue
            assert producer.epoch == truth.epoch
            assert producer.batches[-1] == truth.batches[-1]
        assert not replayed.by_id

    def check_an_offset(self) -> None:
        log = self.log
        visible = [s for s in self.stored if s.last_offset >= log.log_start_offset]
        if not visible:
            return
        stored = self.random.choice(visible)
        offset = self.random.randint(
            max(stored.first_offset, log.log_start_offset), stored.last_offset
        )
        end = self.random.choice([s for s in visible if s.last_offset >= offset])
        max_bytes = self.random.choice((1, 700, 10**6))
        found = log.read(offset, max_bytes, end_offset=end.last_offset + 1, at_least_one=True)
        assert found is not None
        data = found.file.read_at(found.position, found.size)
        assert read_header(data).base_offset == stored.first_offset
        assert len(data) <= max(max_bytes, len(stored.data))
        position = 0
        while position + 61 <= len(data):
            header = read_header(data, position)
            assert header.last_offset <= end.last_offset
            position += header.size

    def check_a_time(self) -> None:
        if self.config.message_timestamp_type != "CreateTime":
            return
        records = [
            (record.timestamp_ms, stored.first_offset + record.offset)
            for stored in self.stored
            for record in iterate(stored.data)
            if stored.first_offset + record.offset >= self.log.log_start_offset
        ]
        wanted = self.now_ms - self.random.randint(-50, 500)
        truth = next((r for r in records if r[0] is not None and r[0] >= wanted), None)
        found = offset_for_timestamp(self.log, wanted)
        assert (found and found[:2]) == truth


ACTIONS = (
    [World.append] * 40
    + [World.append_again] * 4
    + [World.lead] * 2
    + [World.roll] * 2
    + [World.begin_flush] * 4
    + [World.finish_flush] * 4
    + [World.checkpoint] * 2
    + [World.delete_records, World.retain, World.truncate, World.stop_and_start, World.kill]
    + [World.lose_power] * 2
    + [World.check_an_offset] * 4
)


def run(seed: int) -> None:
    world = World(seed)
    try:
        for _ in range(STEPS):
            world.random.choice(ACTIONS)(world)
            world.log_start_reached = max(world.log_start_reached, world.log.log_start_offset)
        world.check_all()
    except BaseException:
        print(f"failing seed: SEED={seed}")
        raise


def test_the_log_tells_the_truth_whatever_the_disk_loses() -> None:
    if "SEED" in os.environ:
        run(int(os.environ["SEED"]))
        return
    for seed in range(int(os.environ.get("SEEDS", "200"))):
        run(seed)


def test_the_simulated_disk_does_lose_what_was_not_synced() -> None:
    lost = 0
    for seed in range(20):
        disk = SimDisk()
        file = disk.open("a", create=True)
        disk.sync_dir()
        file.append([b"synced"])
        file.sync()
        file.append([b" and not"])
        disk.lose_power(Random(seed))
        data = disk.read("a")
        assert data.startswith(b"synced")
        lost += data != b"synced and not"
    assert lost > 5


def test_the_simulated_disk_knows_what_is_absent() -> None:
    disk = SimDisk()
    for ask in (disk.open, disk.read, disk.size_of, disk.modified_ms, disk.list, disk.sync_dir):
        with pytest.raises(AbsentError):
            ask("absent")


@pytest.mark.parametrize("synced", [True, False])
def test_a_created_file_survives_when_its_folder_was_synced(synced: bool) -> None:
    outcomes = set()
    for seed in range(20):
        disk = SimDisk()
        disk.open("a", create=True)
        if synced:
            disk.sync_dir()
        disk.lose_power(Random(seed))
        outcomes.add(disk.exists("a"))
    assert outcomes == ({True} if synced else {True, False})
