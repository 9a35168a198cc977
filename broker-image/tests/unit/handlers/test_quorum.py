"""DescribeQuorum and UpdateFeatures, as observed of Apache Kafka 4.3.1."""

import pytest
from asked_broker import AskedBroker

from pykraft.protocol.errors import ErrorCode
from pykraft.protocol.versions import ApiKey


def asked(topic: str, *partitions: int) -> list[dict[str, object]]:
    return [
        {"topic_name": topic, "partitions": [{"partition_index": index} for index in partitions]}
    ]


@pytest.mark.parametrize("version", range(3))
def test_the_quorum_of_the_metadata_log_is_described(node: AskedBroker, version: int) -> None:
    answer = node.ask(ApiKey.DESCRIBE_QUORUM, version, topics=asked("__cluster_metadata", 0))
    assert answer.error_code == ErrorCode.NONE
    assert [topic.topic_name for topic in answer.topics] == ["__cluster_metadata"]


@pytest.mark.parametrize(("topic", "index"), [("orders", 0), ("__cluster_metadata", 1)])
def test_no_other_partition_has_a_quorum(node: AskedBroker, topic: str, index: int) -> None:
    answer = node.ask(ApiKey.DESCRIBE_QUORUM, 2, topics=asked(topic, index))
    assert answer.error_code == ErrorCode.NONE
    ((partition,),) = (each.partitions for each in answer.topics)
    assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", range(3))
def test_features_are_updated(node: AskedBroker, version: int) -> None:
    update = {"feature": "group.version", "max_version_level": 0, "upgrade_type": 1}
    answer = node.ask(ApiKey.UPDATE_FEATURES, version, feature_updates=[update], timeout=1000)
    assert answer.error_code == ErrorCode.NONE


def test_one_bad_update_refuses_all(node: AskedBroker) -> None:
    updates = [
        {"feature": "metadata.version", "max_version_level": 30, "upgrade_type": 1},
        {"feature": "nonsense", "max_version_level": 1, "upgrade_type": 1},
    ]
    answer = node.ask(ApiKey.UPDATE_FEATURES, 1, feature_updates=updates)
    assert (answer.error_code, answer.results) == (ErrorCode.INVALID_UPDATE_VERSION, [])
    assert node.errors(ApiKey.UPDATE_FEATURES) == {ErrorCode.INVALID_UPDATE_VERSION: 1}
