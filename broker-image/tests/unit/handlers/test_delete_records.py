"""DeleteRecords, as observed of Apache Kafka 4.3.1."""

from pathlib import Path

import pytest
from asked_broker import NOW_MS, AskedBroker
from batches import batch_of

from pykraft.core.storage import StorageError
from pykraft.protocol.errors import ErrorCode
from pykraft.protocol.versions import ApiKey


def delete(node: AskedBroker, topic: str, *offsets: int, index: int = 0) -> tuple[int, int]:
    """Error and low watermark."""
    answer = node.ask(
        ApiKey.DELETE_RECORDS,
        2,
        topics=[
            {
                "name": topic,
                "partitions": [{"partition_index": index, "offset": o} for o in offsets],
            }
        ],
        timeout=1000,
    )
    ((result,),) = (topic.partitions for topic in answer.topics)
    return (result.error_code, result.low_watermark)


@pytest.fixture
def filled(node: AskedBroker) -> AskedBroker:
    partition = node.create("orders")
    for _ in range(5):
        batch = batch_of(b"v", timestamp_ms=NOW_MS).encode()
        partition.append(memoryview(batch), NOW_MS)
    return node


def test_the_log_start_moves_forward_and_never_back(filled: AskedBroker) -> None:
    assert delete(filled, "orders", 2) == (0, 2)
    assert delete(filled, "orders", 1) == (0, 2)
    assert filled.partition("orders").log.log_start_offset == 2


def test_minus_one_is_the_high_watermark(filled: AskedBroker) -> None:
    assert delete(filled, "orders", -1) == (0, 5)


@pytest.mark.parametrize("offset", [6, 99, -2])
def test_an_offset_beyond_what_is_committed_is_out_of_range(
    filled: AskedBroker, offset: int
) -> None:
    assert delete(filled, "orders", offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_of_a_partition_named_twice_the_last_offset_counts(filled: AskedBroker) -> None:
    assert delete(filled, "orders", 3, 4) == (0, 4)


def test_what_is_not_there_is_unknown(filled: AskedBroker) -> None:
    assert delete(filled, "nope", 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert delete(filled, "orders", 0, index=4) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


def test_a_topic_that_is_only_compacted_keeps_its_records(node: AskedBroker) -> None:
    node.create("compacted", cleanup_policy="compact")
    node.create("both", cleanup_policy="compact,delete")
    node.create("neither", cleanup_policy="")
    assert delete(node, "compacted", 0) == (ErrorCode.POLICY_VIOLATION, -1)
    assert delete(node, "both", 0) == (0, 0)
    assert delete(node, "neither", 0) == (0, 0)


def test_internal_topics_keep_their_records(tmp_path: Path) -> None:
    node = AskedBroker(tmp_path)
    node.create("__consumer_offsets")
    assert delete(node, "__consumer_offsets", 0) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)


def test_a_failing_disk_is_told_and_reported(
    filled: AskedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = filled.partition("orders")
    reported: list[StorageError] = []
    partition.on_storage_error = lambda _, error: reported.append(error)

    def refuse(*_: object) -> None:
        raise StorageError("no space left")

    monkeypatch.setattr(type(partition.log), "delete_records_before", refuse)
    assert delete(filled, "orders", 2) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert len(reported) == 1
