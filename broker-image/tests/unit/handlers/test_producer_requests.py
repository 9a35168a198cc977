"""InitProducerId and DescribeProducers, as observed of Apache Kafka 4.3.1."""

from typing import Any

import pytest
from asked_broker import NOW_MS, AskedBroker
from batches import batch_of

from pykraft.handlers import producers
from pykraft.protocol.errors import ErrorCode
from pykraft.protocol.versions import ApiKey


def init(node: AskedBroker, version: int = 5, **fields: object) -> tuple[int, int, int]:
    body: dict[str, Any] = {"transactional_id": None, "transaction_timeout": 60_000} | fields
    answer = node.ask(ApiKey.INIT_PRODUCER_ID, version, **body)
    return (answer.error_code, answer.producer_id, answer.producer_epoch)


@pytest.mark.parametrize("version", range(6))
def test_an_idempotent_producer_gets_a_fresh_id(node: AskedBroker, version: int) -> None:
    assert init(node, version) == (0, 4000, 0)


def test_whatever_it_had_before_it_gets_a_fresh_id(node: AskedBroker) -> None:
    assert init(node, producer_id=5, producer_epoch=1) == (0, 4000, 0)
    assert init(node, transaction_timeout=-1) == (0, 4000, 0)


@pytest.mark.parametrize("half", [{"producer_id": 5}, {"producer_epoch": 5}])
def test_an_id_without_its_epoch_is_refused(node: AskedBroker, half: dict[str, int]) -> None:
    assert init(node, **half) == (ErrorCode.INVALID_REQUEST, -1, -1)


def test_an_empty_transactional_id_is_refused(node: AskedBroker) -> None:
    assert init(node, transactional_id="") == (ErrorCode.INVALID_REQUEST, -1, -1)


def test_transactions_are_refused_for_good(node: AskedBroker) -> None:
    assert init(node, transactional_id="t") == (ErrorCode.UNSUPPORTED_VERSION, -1, -1)


def test_when_no_id_can_be_had_the_client_learns_why(node: AskedBroker) -> None:
    node.producer_id_error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert init(node) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)
    assert node.errors(ApiKey.INIT_PRODUCER_ID) == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: 1}


def test_a_partition_tells_the_producers_that_it_remembers(node: AskedBroker) -> None:
    partition = node.create("orders")
    for sequence in (0, 2):
        batch = batch_of(
            b"a",
            b"b",
            timestamp_ms=NOW_MS + sequence,
            producer_id=77,
            producer_epoch=3,
            base_sequence=sequence,
        )
        partition.append(memoryview(batch.encode()), NOW_MS)
    answer = node.ask(
        ApiKey.DESCRIBE_PRODUCERS, 0, topics=[{"name": "orders", "partition_indexes": [0]}]
    )
    ((described,),) = (topic.partitions for topic in answer.topics)
    (producer,) = described.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (77, 3, 3)
    assert producer.last_timestamp == NOW_MS + 2
    assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (-1, -1)


def test_more_producers_than_an_answer_should_have_are_refused(
    node: AskedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producers, "PRODUCERS_TOLD_MAX", 2)
    partition = node.create("orders", partitions=2)
    for producer_id in range(3):
        fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
        batch = batch_of(b"a", timestamp_ms=NOW_MS, **fields)
        partition.append(memoryview(batch.encode()), NOW_MS)
    asked = [{"name": "orders", "partition_indexes": [1, 0, 0, 1]}]
    answer = node.ask(ApiKey.DESCRIBE_PRODUCERS, 0, topics=asked)
    told = [(p.error_code, len(p.active_producers)) for p in answer.topics[0].partitions]
    # One partition is told whatever it has; the same again is too much.
    refused = ErrorCode.INVALID_REQUEST
    assert told == [(0, 0), (0, 3), (refused, 0), (refused, 0)]


def test_producers_of_what_is_not_there_are_unknown(node: AskedBroker) -> None:
    node.create("orders")
    answer = node.ask(
        ApiKey.DESCRIBE_PRODUCERS,
        0,
        topics=[
            {"name": "orders", "partition_indexes": [3]},
            {"name": "nope", "partition_indexes": [0]},
            {"name": "bad name", "partition_indexes": [0]},
        ],
    )
    assert [p.error_code for topic in answer.topics for p in topic.partitions] == [3, 3, 17]
