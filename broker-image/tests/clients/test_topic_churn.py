"""Topics that come and go while the node works: nothing of the old ones reaches the new ones.

Each of these stopped the node, or lost acknowledged records, before its test was written.
"""

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from batches import batch_of
from processes import Node, NodeError, PykraftNode, new_node, now_ms
from raw_client import RawClient

CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS = 19, 20, 21
PRODUCE, LIST_OFFSETS = 0, 2
EARLIEST, LATEST = -2, -1


@pytest.fixture
def node(tmp_path: Path) -> Any:
    with new_node("pykraft", tmp_path / "node") as started:
        yield started.start()


def create(client: RawClient, name: str, partitions: int = 1) -> int:
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
    }
    answer = client.ask(CREATE_TOPICS, 7, topics=[topic], timeout=20_000, validate_only=False)
    return int(answer["topics"][0]["error_code"])


def delete(client: RawClient, name: str) -> int:
    answer = client.ask(DELETE_TOPICS, 5, topic_names=[name], timeout=20_000)
    return int(answer["responses"][0]["error_code"])


def produce(client: RawClient, topic: str, *values: bytes) -> tuple[int, int]:
    records = batch_of(*values, timestamp_ms=now_ms()).encode()
    answer = client.ask(
        PRODUCE,
        9,
        transactional_id=None,
        acks=-1,
        timeout=10_000,
        topic_data=[{"name": topic, "partition_data": [{"index": 0, "records": records}]}],
    )
    reply = answer["responses"][0]["partition_responses"][0]
    return int(reply["error_code"]), int(reply["base_offset"])


def offsets(client: RawClient, topic: str) -> tuple[int, int]:
    found = []
    for timestamp in (EARLIEST, LATEST):
        partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
        answer = client.ask(
            LIST_OFFSETS,
            7,
            replica_id=-1,
            isolation_level=0,
            topics=[{"name": topic, "partitions": [partition]}],
        )
        found.append(int(answer["topics"][0]["partitions"][0]["offset"]))
    return found[0], found[1]


def test_topics_deleted_while_their_logs_are_flushed_do_not_harm_the_node(node: Node) -> None:
    with RawClient(node.port) as client:
        for number in range(60):
            assert create(client, f"short-lived-{number}", partitions=20) == 0
            assert delete(client, f"short-lived-{number}") == 0
        assert create(client, "after") == 0
        assert produce(client, "after", b"still here") == (0, 0)
    assert "offline" not in node.log_since_start()


def test_a_topic_made_anew_keeps_its_records_through_a_kill(node: Node) -> None:
    with RawClient(node.port) as client:
        create(client, "t")
        produce(client, "t", *[b"old"] * 100)
        partition = {"partition_index": 0, "offset": 50}
        topics = [{"name": "t", "partitions": [partition]}]
        client.ask(DELETE_RECORDS, 2, topics=topics, timeout=5_000)
    # The clean stop writes the log start and the recovery point of the old topic.
    node.stop()
    node.start()
    with RawClient(node.port) as client:
        assert delete(client, "t") == 0
        assert create(client, "t") == 0
        assert [produce(client, "t", b"new")[1] for _ in range(10)] == list(range(10))
    node.kill()
    node.start()
    with RawClient(node.port) as client:
        assert offsets(client, "t") == (0, 10)


def test_a_topic_of_thousands_of_partitions_does_not_stop_the_others(node: Node) -> None:
    """Files are made in turns: a client that is served meanwhile sees no long stop."""
    slowest_ms = 0
    finished = threading.Event()

    def create_large() -> None:
        with RawClient(node.port) as client:
            assert create(client, "large", partitions=3_000) == 0
        finished.set()

    with RawClient(node.port) as client:
        create(client, "small")
        worker = threading.Thread(target=create_large)
        worker.start()
        while not finished.is_set() or slowest_ms == 0:
            began = now_ms()
            assert produce(client, "small", b"x")[0] == 0
            slowest_ms = max(slowest_ms, now_ms() - began)
        worker.join()
    # About 50 ms on a quiet machine; making them all in one go took seconds.
    assert slowest_ms < 1_000


def test_two_nodes_do_not_share_a_metadata_directory(tmp_path: Path) -> None:
    shared = str(tmp_path / "metadata")
    first = new_node("pykraft", tmp_path / "first", {"metadata.log.dir": shared})
    with first:
        first.start()
        second = PykraftNode(tmp_path / "second", {"metadata.log.dir": shared})
        shutil.copytree(first.data, second.data)
        with pytest.raises(NodeError, match="in use by another process"):
            second.start()


def test_a_directory_that_cannot_be_read_at_start_leaves_the_other_one_served(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "node"
    both = f"{folder / 'data'},{folder / 'second'}"
    settings = {"log.dirs": both, "metadata.log.dir": str(folder / "data")}
    with new_node("pykraft", folder, settings) as node:
        node.start()
        with RawClient(node.port) as client:
            create(client, "t", partitions=2)
        node.stop()
        broken = next((folder / "second").glob("t-*"))
        log = next(broken.glob("*.log"))
        log.unlink()
        log.mkdir()
        node.start()
        assert "goes offline" in node.log_since_start()
        healthy = next((folder / "data").glob("t-*")).name
        assert healthy != broken.name
