"""What a client hears while there is no active controller."""

from typing import Any

import pytest
from asked_broker import AskedBroker

from pykraft.protocol.errors import ErrorCode
from pykraft.protocol.versions import ApiKey

ALTERED = {"resources": [{"resource_type": 2, "resource_name": "a", "configs": []}]}
UPDATE = {"feature": "group.version", "max_version_level": 1, "upgrade_type": 1}


@pytest.mark.parametrize(
    ("api_key", "version", "body", "results"),
    [
        (ApiKey.CREATE_TOPICS, 7, {"topics": [{"name": "a"}, {"name": "b"}]}, "topics"),
        (ApiKey.DELETE_TOPICS, 6, {"topics": [{"name": "a"}]}, "responses"),
        (ApiKey.DELETE_TOPICS, 1, {"topic_names": ["a", "b"]}, "responses"),
        (ApiKey.CREATE_PARTITIONS, 3, {"topics": [{"name": "a", "count": 2}]}, "results"),
        (ApiKey.ALTER_CONFIGS, 2, ALTERED, "responses"),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, ALTERED, "responses"),
    ],
)
def test_everything_asked_for_is_refused_by_name(
    node: AskedBroker, api_key: ApiKey, version: int, body: dict[str, Any], results: str
) -> None:
    node.is_active = False
    answer = node.ask(api_key, version, **body)
    (asked,) = body.values()
    codes = [result.error_code for result in getattr(answer, results)]
    assert codes == [ErrorCode.NOT_CONTROLLER] * len(asked)
    assert node.errors(api_key) == {ErrorCode.NOT_CONTROLLER: len(asked)}


def test_an_update_of_features_is_refused_as_a_whole(node: AskedBroker) -> None:
    node.is_active = False
    answer = node.ask(ApiKey.UPDATE_FEATURES, 1, feature_updates=[UPDATE])
    assert answer.error_code == ErrorCode.NOT_CONTROLLER


def test_metadata_are_told_although_nothing_can_be_created(node: AskedBroker) -> None:
    node.is_active = False
    answer = node.ask(ApiKey.METADATA, 9, topics=[{"name": "a"}], allow_auto_topic_creation=True)
    assert [t.error_code for t in answer.topics] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
