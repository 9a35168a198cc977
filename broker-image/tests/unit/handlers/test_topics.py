"""CreateTopics, DeleteTopics and CreatePartitions: what goes to the controller and comes back."""

from typing import Any

import pytest
from asked_broker import AskedBroker

from pykraft.protocol.errors import ErrorCode
from pykraft.protocol.versions import ApiKey


def new_topic(name: str, partitions: int = 1, replicas: int = 1) -> dict[str, object]:
    return {"name": name, "num_partitions": partitions, "replication_factor": replicas}


@pytest.mark.parametrize("version", range(2, 8))
def test_every_version_creates(node: AskedBroker, version: int) -> None:
    answer = node.ask(ApiKey.CREATE_TOPICS, version, topics=[new_topic("a", 3)], timeout=1000)
    assert [(t.name, t.error_code) for t in answer.topics] == [("a", 0)]
    assert len(node.broker.image.topics["a"].partitions) == 3
    if version >= 5:
        (topic,) = answer.topics
        assert (topic.num_partitions, topic.replication_factor) == (3, 1)
        assert len(topic.configs) == 33
    if version >= 7:
        assert answer.topics[0].topic_id == node.broker.image.topics["a"].id


def test_validation_alone_creates_nothing(node: AskedBroker) -> None:
    answer = node.ask(ApiKey.CREATE_TOPICS, 7, topics=[new_topic("a")], validate_only=True)
    assert answer.topics[0].error_code == ErrorCode.NONE
    assert node.broker.image.topics == {}


def test_refusals_are_told_and_counted(node: AskedBroker) -> None:
    node.create("a")
    topics = [new_topic("a"), new_topic("b", replicas=3), new_topic("c"), new_topic("c")]
    answer = node.ask(ApiKey.CREATE_TOPICS, 7, topics=topics)
    assert {t.name: t.error_code for t in answer.topics} == {
        "a": ErrorCode.TOPIC_ALREADY_EXISTS,
        "b": ErrorCode.INVALID_REPLICATION_FACTOR,
        "c": ErrorCode.INVALID_REQUEST,
    }
    assert node.errors(ApiKey.CREATE_TOPICS) == {36: 1, 38: 1, 42: 1}


@pytest.mark.parametrize("version", range(1, 7))
def test_every_version_deletes_by_name(node: AskedBroker, version: int) -> None:
    node.create("a")
    body: dict[str, Any] = (
        {"topics": [{"name": "a"}, {"name": "nope"}]}
        if version >= 6
        else {"topic_names": ["a", "nope"]}
    )
    answer = node.ask(ApiKey.DELETE_TOPICS, version, timeout=1000, **body)
    assert {t.name: t.error_code for t in answer.responses} == {
        "a": ErrorCode.NONE,
        "nope": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert node.broker.image.topics == {}


def test_topics_are_deleted_by_id(node: AskedBroker) -> None:
    topic_id = node.create("a").topic_id
    wanted = [{"name": None, "topic_id": topic_id}, {"name": None, "topic_id": b"\2" * 16}]
    answer = node.ask(ApiKey.DELETE_TOPICS, 6, topics=wanted)
    assert {t.topic_id: (t.name, t.error_code) for t in answer.responses} == {
        topic_id: ("a", ErrorCode.NONE),
        b"\2" * 16: (None, ErrorCode.UNKNOWN_TOPIC_ID),
    }


@pytest.mark.parametrize("version", range(4))
def test_every_version_adds_partitions(node: AskedBroker, version: int) -> None:
    node.create("a")
    wanted = [
        {"name": "a", "count": 3, "assignments": None},
        {"name": "nope", "count": 3, "assignments": None},
    ]
    answer = node.ask(ApiKey.CREATE_PARTITIONS, version, topics=wanted, timeout=1000)
    assert {r.name: r.error_code for r in answer.results} == {
        "a": ErrorCode.NONE,
        "nope": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert sorted(node.broker.replicas.by_name["a"]) == [0, 1, 2]


def test_partitions_do_not_become_fewer(node: AskedBroker) -> None:
    node.create("a", 2)
    answer = node.ask(ApiKey.CREATE_PARTITIONS, 3, topics=[{"name": "a", "count": 1}])
    assert answer.results[0].error_code == ErrorCode.INVALID_PARTITIONS
