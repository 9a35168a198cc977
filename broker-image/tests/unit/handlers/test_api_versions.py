"""ApiVersions, as observed of Apache Kafka 4.3.1."""

from pathlib import Path

import pytest
from asked_broker import AskedBroker

from pykraft.handlers import HANDLERS
from pykraft.handlers.api_versions import answer_unsupported_version
from pykraft.handlers.context import RequestContext
from pykraft.protocol.decoding import decode_response
from pykraft.protocol.errors import ErrorCode
from pykraft.protocol.versions import API_VERSIONS, ApiKey

WHO = {"client_software_name": "tester", "client_software_version": "1.0"}


def test_what_is_announced_is_what_has_a_handler(node: AskedBroker) -> None:
    answer = node.ask(ApiKey.API_VERSIONS, 4, **WHO)
    announced = {each.api_key for each in answer.api_keys}
    assert announced == set(HANDLERS) | {ApiKey.PRODUCE, ApiKey.FETCH}
    assert announced == set(API_VERSIONS)


def test_finalized_features_carry_the_offset_of_the_metadata(node: AskedBroker) -> None:
    answer = node.ask(ApiKey.API_VERSIONS, 4, **WHO)
    levels = {f.name: (f.min_version_level, f.max_version_level) for f in answer.finalized_features}
    assert levels == {"metadata.version": (30, 30), "kraft.version": (1, 1)}
    assert answer.finalized_features_epoch == node.broker.image.offset
    assert not answer.zk_migration_ready


def test_a_static_quorum_finalizes_no_kraft_version(tmp_path: Path) -> None:
    node = AskedBroker(tmp_path, controller_quorum_voters="1@127.0.0.1:9093")
    answer = node.ask(ApiKey.API_VERSIONS, 4, **WHO)
    assert [feature.name for feature in answer.finalized_features] == ["metadata.version"]


def test_version_3_is_told_no_feature_that_begins_at_level_0(node: AskedBroker) -> None:
    third = node.ask(ApiKey.API_VERSIONS, 3, **WHO)
    fourth = node.ask(ApiKey.API_VERSIONS, 4, **WHO)
    assert [feature.name for feature in third.supported_features] == ["metadata.version"]
    assert len(fourth.supported_features) == 7


@pytest.mark.parametrize(
    ("name", "version", "is_valid"),
    [
        ("a-b.c", "1", True),
        ("a b", "1", False),
        ("a", "-1", False),
        ("a", "1-", False),
        ("a_", "1", False),
        ("", "1", False),
        ("x", "", False),
    ],
)
def test_a_client_names_itself_by_kip_511(
    node: AskedBroker, name: str, version: str, is_valid: bool
) -> None:
    answer = node.ask(
        ApiKey.API_VERSIONS, 3, client_software_name=name, client_software_version=version
    )
    expected = ErrorCode.NONE if is_valid else ErrorCode.INVALID_REQUEST
    assert answer.error_code == expected
    assert bool(answer.api_keys) is is_valid


def test_old_versions_need_no_name(node: AskedBroker) -> None:
    assert node.ask(ApiKey.API_VERSIONS, 0).error_code == ErrorCode.NONE


def test_an_unknown_version_is_answered_in_version_0_with_the_range_of_this_api_alone(
    node: AskedBroker,
) -> None:
    sent: list[bytes] = []
    context = RequestContext(
        api_key=ApiKey.API_VERSIONS,
        version=99,
        correlation_id=1,
        client_bytes=b"",
        listener="PLAINTEXT",
        peer="",
        counters=node.broker.counters.request(ApiKey.API_VERSIONS),
        started_ns=0,
        sender=lambda _, parts: sent.extend(p for p in parts or () if isinstance(p, bytes)),
        disconnect=lambda: None,
    )
    answer_unsupported_version(node.broker, context)
    # The bytes that Apache Kafka 4.3.1 sends.
    assert sent == [bytes.fromhex("002300000001001200000004")]
    assert decode_response(ApiKey.API_VERSIONS, 0, memoryview(sent[0])).error_code == 35
