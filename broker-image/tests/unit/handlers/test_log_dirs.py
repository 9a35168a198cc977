"""DescribeLogDirs, as observed of Apache Kafka 4.3.1."""

import pytest
from asked_broker import LOG_DIR_ID, NOW_MS, AskedBroker, registration
from batches import batch_of

from pykraft.protocol.decoding import Message
from pykraft.protocol.errors import ErrorCode
from pykraft.protocol.versions import ApiKey


def described(answer: Message) -> list[tuple[str, list[int]]]:
    ((_, topics),) = ((result.log_dir, result.topics) for result in answer.results)
    return [(topic.name, [p.partition_index for p in topic.partitions]) for topic in topics]


@pytest.mark.parametrize("version", range(1, 6))
def test_null_asks_for_all_partitions(node: AskedBroker, version: int) -> None:
    node.create("a", 2)
    node.create("b")
    answer = node.ask(ApiKey.DESCRIBE_LOG_DIRS, version, topics=None)
    assert described(answer) == [("a", [0, 1]), ("b", [0])]


def test_only_hosted_partitions_of_those_named_are_told(node: AskedBroker) -> None:
    node.create("a", 2)
    node.create("b")
    wanted = [
        {"topic": "a", "partitions": [0, 7]},
        {"topic": "nope", "partitions": [0]},
        {"topic": "a", "partitions": [1]},
    ]
    assert described(node.ask(ApiKey.DESCRIBE_LOG_DIRS, 5, topics=wanted)) == [("a", [0, 1])]
    assert described(node.ask(ApiKey.DESCRIBE_LOG_DIRS, 5, topics=[])) == []


def test_sizes_are_those_of_the_segments_and_of_the_volume(node: AskedBroker) -> None:
    partition = node.create("a")
    batch = batch_of(b"v", timestamp_ms=NOW_MS).encode()
    partition.append(memoryview(batch), NOW_MS)
    (result,) = node.ask(ApiKey.DESCRIBE_LOG_DIRS, 5, topics=None).results
    assert (result.total_bytes, result.usable_bytes, result.is_cordoned) == (1000, 400, False)
    (topic,) = result.topics
    (told,) = topic.partitions
    assert (told.partition_size, told.offset_lag, told.is_future_key) == (len(batch), 0, False)


def test_a_failed_directory_is_told_without_partitions(node: AskedBroker) -> None:
    node.create("a")
    node.online = False
    (result,) = node.ask(ApiKey.DESCRIBE_LOG_DIRS, 5, topics=None).results
    assert (result.error_code, result.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
    assert node.errors(ApiKey.DESCRIBE_LOG_DIRS) == {ErrorCode.KAFKA_STORAGE_ERROR: 1}


def test_a_cordoned_directory_says_so(node: AskedBroker) -> None:
    node.commit([registration(cordoned_log_dirs=(LOG_DIR_ID,))])
    (result,) = node.ask(ApiKey.DESCRIBE_LOG_DIRS, 5, topics=None).results
    assert result.is_cordoned
