"""A disk that takes no more: KAFKA_STORAGE_ERROR, the directory goes offline, nothing is lost.

Runs against either broker (TARGET); probes and metrics are pykraft's.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from batches import base_offsets, batch_of
from bystander import Bystander, create_topic, fetch, produce
from full_disk import FileSizeLimit, FullDisk, full_disk
from http_page import ANY_PORT, Metrics, get
from processes import TARGET, Node, PykraftNode, new_node
from raw_client import ConnectionClosedError, RawClient
from waiting import eventually

LEADER_NOT_AVAILABLE, KAFKA_STORAGE_ERROR = 5, 56
METADATA, DESCRIBE_LOG_DIRS = 3, 35
TOPICS = ("a", "b", "c", "d")
WRITTEN = 20
# Larger than any slack that a file system or a limit leaves.
TOO_MUCH = batch_of(bytes(300_000)).encode()
# A directory's failure reaches the controller with a heartbeat.
TOLD_SECONDS_MAX = 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FullDisk]:
    with full_disk(tmp_path / "small") as disk:
        yield disk


@pytest.fixture
def node_of_two(tmp_path: Path, disk: FullDisk) -> Iterator[Node]:
    """The metadata log is in the first directory, which stays well."""
    directories = {"log.dirs": f"{tmp_path / 'large'},{disk.path}"}
    with new_node(TARGET, tmp_path / "node", directories | ANY_PORT) as node:
        yield node.start()


def topics_in(folder: Path) -> list[str]:
    return [topic for topic in TOPICS if (folder / f"{topic}-0").exists()]


def write_all(node: Node) -> None:
    for topic in TOPICS:
        create_topic(node.port, topic)
    with RawClient(node.port) as client:
        for number in range(WRITTEN):
            for topic in TOPICS:
                answer = produce(client, topic, batch_of(b"%d" % number).encode())
                assert answer["error_code"] == 0, answer


def is_complete(node: Node, topic: str) -> bool:
    with RawClient(node.port) as client:
        answer = fetch(client, topic, 0)
    return answer["error_code"] == 0 and base_offsets(answer["records"])[:WRITTEN] == list(
        range(WRITTEN)
    )


def test_partitions_on_a_full_disk_go_offline_and_the_others_go_on(
    node_of_two: Node, disk: FullDisk, tmp_path: Path
) -> None:
    node = node_of_two
    write_all(node)
    lost, kept = topics_in(disk.path), topics_in(tmp_path / "large")
    assert len(lost) == len(kept) == 2
    with Bystander(node.port, kept[0]) as bystander:
        disk.fill(node)
        with RawClient(node.port) as client:
            assert produce(client, lost[0], TOO_MUCH)["error_code"] == KAFKA_STORAGE_ERROR
            assert_offline(client, disk, lost)
            bystander.goes_on()
            assert produce(client, kept[1], batch_of(b"more").encode())["error_code"] == 0
        if isinstance(node, PykraftNode):
            assert_said(node, disk, lost)
    node.stop()
    disk.free()
    node.start()
    for topic in TOPICS:
        assert is_complete(node, topic), topic
    with RawClient(node.port) as client:
        assert produce(client, lost[0], batch_of(b"again").encode())["error_code"] == 0
    node.stop()


def assert_offline(client: RawClient, disk: FullDisk, lost: list[str]) -> None:
    """All logs of the directory, also those that nobody wrote to."""
    eventually(
        lambda: all(_leader(client, topic) == (LEADER_NOT_AVAILABLE, -1, [1]) for topic in lost),
        within_s=TOLD_SECONDS_MAX,
        because="the partitions have no leader",
    )
    for topic in lost:
        assert produce(client, topic, batch_of(b"x").encode())["error_code"] == KAFKA_STORAGE_ERROR
        assert fetch(client, topic, 0)["error_code"] == KAFKA_STORAGE_ERROR
    answer = client.ask(DESCRIBE_LOG_DIRS, 4, topics=None)
    codes = {each["log_dir"]: each["error_code"] for each in answer["results"]}
    assert codes.pop(str(disk.path)) == KAFKA_STORAGE_ERROR
    assert list(codes.values()) == [0]


def _leader(client: RawClient, topic: str) -> tuple[int, int, list[int]]:
    wanted = [{"name": topic}]
    answer = client.ask(METADATA, 9, topics=wanted, allow_auto_topic_creation=False)
    (partition,) = answer["topics"][0]["partitions"]
    return partition["error_code"], partition["leader_id"], partition["offline_replicas"]


def assert_said(node: Node, disk: FullDisk, lost: list[str]) -> None:
    """In the log, in the metrics and to the probes."""
    told = [line for line in node.log_since_start().splitlines() if "goes offline" in line]
    assert len(told) == 1
    assert str(disk.path) in told[0]
    metrics = Metrics(node)
    assert metrics.value("kafka_log_logmanager_offlinelogdirectorycount") == 1
    directory = {"logDirectory": str(disk.path)}
    assert metrics.value("kafka_log_logmanager_logdirectoryoffline", **directory) == 1
    assert metrics.value("kafka_server_replicamanager_offlinereplicacount") == len(lost)
    assert metrics.value("pykraft_storage_errors_total") >= 1
    ready = get(node, "/readyz")
    assert (ready.status, str(disk.path) in ready.text) == (503, True)
    assert get(node, "/livez").status == 200


def test_a_node_whose_last_disk_is_full_says_so_and_ends(tmp_path: Path, disk: FullDisk) -> None:
    with new_node(TARGET, tmp_path / "node", {"log.dirs": str(disk.path)}) as node:
        node.start()
        write_all(node)
        disk.fill(node)
        assert code_or_end(node, "a") in (KAFKA_STORAGE_ERROR, "closed")
        assert node.process is not None
        assert node.process.wait(20) == 1
        assert str(disk.path) in node.log_since_start()
        node.kill()
        disk.free()
        node.start()
        for topic in TOPICS:
            assert is_complete(node, topic), topic
        node.stop()


def code_or_end(node: Node, topic: str) -> int | str:
    """The node may be gone before its answer is out."""
    with RawClient(node.port) as client:
        try:
            code: int = produce(client, topic, TOO_MUCH)["error_code"]
        except (ConnectionClosedError, ConnectionResetError):
            return "closed"
    return code


def test_a_limit_on_file_sizes_is_a_failed_disk_too(tmp_path: Path) -> None:
    """EFBIG in place of ENOSPC; only the log that ran into it noticed, but all go offline."""
    limit = FileSizeLimit(tmp_path / "limited")
    limit.path.mkdir()
    directories = {"log.dirs": f"{tmp_path / 'large'},{limit.path}"}
    with new_node(TARGET, tmp_path / "node", directories) as node:
        node.start()
        write_all(node)
        lost = topics_in(limit.path)
        limit.fill(node)
        with RawClient(node.port) as client:
            assert produce(client, lost[0], TOO_MUCH)["error_code"] == KAFKA_STORAGE_ERROR
            assert_offline(client, limit, lost)
        node.kill()
        node.start()
        for topic in TOPICS:
            assert is_complete(node, topic), topic
        node.stop()
