from pykraft.protocol.encoding import encode_response
from pykraft.protocol.versions import (
    API_VERSIONS,
    NAMES,
    SERVED_VERSIONS,
    ApiKey,
    api_versions_body,
    is_flexible,
    is_served,
    unsupported_api_versions_body,
)

SUPPORTED = {"metadata.version": (7, 30), "group.version": (0, 1)}


def test_old_produce_versions_are_announced_but_not_served() -> None:
    assert API_VERSIONS[ApiKey.PRODUCE] == (0, 13)
    assert SERVED_VERSIONS[ApiKey.PRODUCE] == (3, 13)
    assert not is_served(ApiKey.PRODUCE, 2)
    assert is_served(ApiKey.PRODUCE, 3)
    assert not is_served(ApiKey.PRODUCE, 14)


def test_an_unknown_api_is_neither_served_nor_flexible() -> None:
    assert not is_served(999, 0)
    assert not is_flexible(999, 0)


def test_apis_have_the_names_that_kafkas_metrics_use() -> None:
    assert NAMES[ApiKey.PRODUCE] == "Produce"
    assert NAMES[ApiKey.OFFSET_FOR_LEADER_EPOCH] == "OffsetForLeaderEpoch"


def test_an_unknown_version_of_api_versions_is_answered_as_kafka_answers_it() -> None:
    # The bytes with which Apache Kafka 4.3.1 answered version 5.
    assert (
        encode_response(18, 0, unsupported_api_versions_body()).hex() == "002300000001001200000004"
    )


def test_features_from_level_0_on_are_told_only_to_clients_that_can_read_them() -> None:
    def supported(version: int) -> list[object]:
        body = api_versions_body(
            version,
            supported_features=SUPPORTED,
            finalized_features={"metadata.version": 30},
            finalized_features_epoch=68,
        )
        features = body["supported_features"]
        assert isinstance(features, list)
        return [feature["name"] for feature in features]

    assert supported(3) == ["metadata.version"]
    assert supported(4) == ["metadata.version", "group.version"]


def test_api_versions_lists_every_api_once_in_order() -> None:
    body = api_versions_body(
        0, supported_features={}, finalized_features={}, finalized_features_epoch=-1
    )

    keys = body["api_keys"]
    assert isinstance(keys, list)
    assert [entry["api_key"] for entry in keys] == sorted(API_VERSIONS)
