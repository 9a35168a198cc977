"""A directory of 1,000 partitions with 10 segments each is served again within seconds.

The segments of one partition are made by the log itself, and copied: all belong to one topic, and
so have the same topic id.
"""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from batches import batch_of
from bystander import create_topic, fetch, produce
from processes import Node, new_node, now_ms
from raw_client import RawClient
from waiting import eventually

from pykraft.core.log.config import LogConfig
from pykraft.core.log.partition_log import PartitionLog
from pykraft.runtime.disk import RealDisk

PARTITIONS, SEGMENTS, BATCHES = 1000, 10, 3
TOPIC = "many"
CREATE_PARTITIONS, METADATA = 37, 3
# "Seconds, not minutes", on two cores that may be busy with something else.
START_SECONDS_MAX = 15.0
POINTS = "recovery-point-offset-checkpoint"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """Stopped, with all the files in place."""
    with new_node("pykraft", tmp_path / "node") as node:
        node.start()
        create_topic(node.port, TOPIC)
        with RawClient(node.port) as client:
            more = [{"name": TOPIC, "count": PARTITIONS, "assignments": None}]
            (result,) = client.ask(CREATE_PARTITIONS, 3, topics=more, timeout=30_000)["results"]
            assert result["error_code"] == 0, result
        # The answer says that they are in the metadata; the folders are made in turns after it.
        last = node.data / f"{TOPIC}-{PARTITIONS - 1}" / "leader-epoch-checkpoint"
        eventually(last.exists, within_s=30, because="the last partition has its files")
        node.kill()
        fill(node.data)
        yield node


def fill(data: Path) -> None:
    """Ten segments in the first partition, then the same in all."""
    log = PartitionLog.open(RealDisk(str(data)), f"{TOPIC}-0", LogConfig(), now_ms=0, clean=True)
    for _ in range(SEGMENTS):
        log.roll(now_ms())
        for _ in range(BATCHES):
            records = memoryview(batch_of(bytes(1000), timestamp_ms=now_ms()).encode())
            log.append(records, leader_epoch=0, now_ms=now_ms())
    log.close(clean=True)
    first = data / f"{TOPIC}-0"
    names = [file.name for file in first.iterdir()]
    assert sum(name.endswith(".log") for name in names) == SEGMENTS
    active = f"{log.log_end_offset - BATCHES:020d}."
    for index in range(1, PARTITIONS):
        folder = data / f"{TOPIC}-{index}"
        for name in names:
            # Sealed segments never change, so that one file can be in all partitions.
            (folder / name).unlink(missing_ok=True)
            copy = shutil.copyfile if name.startswith(active) else os.link
            copy(first / name, folder / name)
    ends = "".join(f"{TOPIC} {index} {SEGMENTS * BATCHES}\n" for index in range(PARTITIONS))
    for name in (POINTS, "replication-offset-checkpoint"):
        (data / name).write_text(f"0\n{PARTITIONS}\n{ends}")
    (data / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')


def started_within(node: Node, seconds_max: float, what: str) -> None:
    started = time.perf_counter()
    node.start()
    seconds = time.perf_counter() - started
    print(f"{PARTITIONS} partitions of {SEGMENTS} segments, {what}: {seconds:.2f} s")
    assert seconds < seconds_max
    assert_all_served(node)


def assert_all_served(node: Node) -> None:
    with RawClient(node.port) as client:
        answer = client.ask(METADATA, 9, topics=[{"name": TOPIC}])
        leaders = [each["leader_id"] for each in answer["topics"][0]["partitions"]]
        assert leaders == [1] * PARTITIONS
        read = fetch(client, TOPIC, 0)
        assert (read["error_code"], read["high_watermark"]) == (0, SEGMENTS * BATCHES)


def test_a_thousand_partitions_of_ten_segments_start_within_seconds(node: Node) -> None:
    started_within(node, START_SECONDS_MAX, "after a clean stop")
    node.kill()
    started_within(node, START_SECONDS_MAX, "after a kill")
    node.kill()
    # Nothing was ever checkpointed: every segment must be scanned.
    (node.data / POINTS).unlink()
    started_within(node, START_SECONDS_MAX, "after a kill, without recovery points")
    with RawClient(node.port) as client:
        answer = produce(client, TOPIC, batch_of(b"first").encode())
        assert (answer["error_code"], answer["base_offset"]) == (0, SEGMENTS * BATCHES)
