"""Apache Kafka 4.3.1 starts on what pykraft wrote, pykraft on what Apache Kafka wrote.

Three chapters in one directory: the first broker writes, the other reads all, checks and writes
on, the first comes back and does the same. Between them lies a clean stop, or a SIGKILL.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from dump import check_indexes, dump_folder, dump_metadata
from ledger import Ledger
from processes import ApacheNode, Node, PykraftNode, new_node, other_kind

SETTINGS = {
    # Files of deleted topics go at once, so that a later broker does not meet them by chance.
    "log.segment.delete.delay.ms": "0",
    "log.index.interval.bytes": "512",
    "log.flush.start.offset.checkpoint.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
    # The records are of 2023.
    "log.retention.ms": "-1",
    # A snapshot of the metadata comes after little, so that one is there to read.
    "metadata.log.max.record.bytes.between.snapshots": "2000",
}
ENDS: dict[str, Callable[[Node], None]] = {"stopped": Node.stop, "killed": Node.kill}
# What Kafka says in its log when a file is not as it should be.
COMPLAINTS = ("orrupt", "rebuild", "ERROR", "Exception")


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("first", ["pykraft", "kafka"])
def test_two_brokers_take_turns_on_one_directory(tmp_path: Path, first: str, end: str) -> None:
    ledger = Ledger()
    node = new_node(first, tmp_path / "node", SETTINGS)
    node.start()
    ledger.write_chapter(node)
    for _ in range(2):
        ENDS[end](node)
        node = other_kind(node)
        node.start()
        ledger.check(node)
        assert complaints(node) == []
        ledger.check_producers(node)
        ledger.write_chapter(node)
    node.stop()
    assert dump_folder(node.data) == []
    assert check_indexes(node.data) == []
    assert_metadata_is_readable(node)


def complaints(node: Node) -> list[str]:
    """What Apache Kafka had to say against the files; pykraft's own log is not judged here."""
    if isinstance(node, PykraftNode):
        return []
    lines = node.log_since_start().splitlines()
    return [line for line in lines if any(word in line for word in COMPLAINTS)]


def assert_metadata_is_readable(node: Node) -> None:
    records, strange = dump_metadata(node.data)
    assert strange == []
    kinds = {str(record["type"]) for record in records}
    assert {
        "FEATURE_LEVEL_RECORD",
        "REGISTER_BROKER_RECORD",
        "TOPIC_RECORD",
        "PARTITION_RECORD",
        "CONFIG_RECORD",
        "REMOVE_TOPIC_RECORD",
        "PRODUCER_IDS_RECORD",
    } <= kinds


def test_what_pykraft_alone_wrote_is_without_fault(tmp_path: Path) -> None:
    """Over clean restarts and kills, so that recovery's own files are read, too."""
    ledger = Ledger()
    node = new_node("pykraft", tmp_path / "node", SETTINGS)
    for end in (Node.stop, Node.kill, Node.stop):
        node.start()
        if ledger.chapters:
            ledger.check(node)
            ledger.check_producers(node)
        ledger.write_chapter(node)
        end(node)
    assert dump_folder(node.data) == []
    assert check_indexes(node.data) == []
    assert_metadata_is_readable(node)
    assert list((node.data / "__cluster_metadata-0").glob("*.checkpoint")), "no snapshot to read"
    kafka = ApacheNode(node.folder)
    with kafka.start():
        ledger.check(kafka)
        assert complaints(kafka) == []
