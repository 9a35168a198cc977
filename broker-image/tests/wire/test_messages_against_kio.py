"""Every message of Kafka 4.3, in every version: our bytes are kio's, and we read what kio wrote."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykraft.protocol.decoding import Message, decode_request, decode_response, make_request
from pykraft.protocol.encoding import encode_request, encode_response
from pykraft.protocol.schema import known_versions, load
from pykraft.protocol.versions import API_VERSIONS, ApiKey, is_flexible, is_served

SERVED = [
    (key, version)
    for key in API_VERSIONS
    for version in known_versions(key)
    if is_served(key, version)
]
OTHERS = [
    (int(key), version)
    for key in ApiKey
    for version in known_versions(key)
    if not is_served(key, version)
]


def check_round_trip(kio: Any, direction: str, key: int, version: int, body: Any) -> None:
    encode = encode_request if direction == "request" else encode_response
    decode = decode_request if direction == "request" else decode_response
    expected = kio.write(direction, key, version, body)
    assert encode(key, version, body) == expected
    # Anything may stand before and, as in Kafka, after the message.
    view = memoryview(b"\xff\xff" + expected + b"\xff")
    assert_reads_as(decode(key, version, view, 2), body)


def assert_reads_as(value: Any, body: Any) -> None:
    """Reads every field through its attribute, as a handler does, tagged ones among them."""
    if isinstance(body, dict):
        assert isinstance(value, Message)
        for name, inner in body.items():
            assert_reads_as(getattr(value, name), inner)
    elif isinstance(body, list):
        assert isinstance(value, list)
        assert len(value) == len(body)
        for item, inner in zip(value, body, strict=True):
            assert_reads_as(item, inner)
    else:
        assert value == body


@pytest.mark.parametrize(("key", "version"), SERVED)
@given(data=st.data())
@settings(max_examples=12)
def test_a_served_request_is_written_and_read_as_by_kio(
    kio: Any, key: int, version: int, data: st.DataObject
) -> None:
    body = data.draw(kio.bodies("request", key, version))
    check_round_trip(kio, "request", key, version, body)


@pytest.mark.parametrize(("key", "version"), SERVED)
@given(data=st.data())
@settings(max_examples=8)
def test_a_served_response_is_written_and_read_as_by_kio(
    kio: Any, key: int, version: int, data: st.DataObject
) -> None:
    body = data.draw(kio.bodies("response", key, version, size_max=2))
    check_round_trip(kio, "response", key, version, body)


@pytest.mark.parametrize(("key", "version"), OTHERS)
@pytest.mark.parametrize("direction", ["request", "response"])
def test_a_message_that_we_do_not_serve_yet_is_written_and_read_as_by_kio(
    kio: Any, direction: str, key: int, version: int
) -> None:
    check_round_trip(kio, direction, key, version, kio.fullest_body(direction, key, version))


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_fields_not_given_have_the_defaults_of_the_schema(kio: Any, key: int, version: int) -> None:
    read = kio.read("response", key, version, encode_response(key, version, {}))

    for field in load(key, version, "response").all_fields():
        if isinstance(field.default, dict):
            continue
        default = list(field.default) if isinstance(field.default, tuple) else field.default
        assert read[field.name] == default, field.name


@pytest.mark.parametrize("key", list(ApiKey))
def test_the_table_of_flexible_versions_is_the_schemas(key: int) -> None:
    for version in known_versions(key):
        assert load(key, version, "request").flexible == is_flexible(key, version)


def test_fields_of_newer_versions_are_dropped_when_an_older_one_is_written() -> None:
    body = {"throttle_time": 7, "error_code": 35, "no_such_field": 1}

    assert encode_response(ApiKey.API_VERSIONS, 0, body) == bytes.fromhex("002300000000")


def test_a_field_that_the_version_lacks_reads_as_its_default_in_the_newest_that_has_it() -> None:
    request = decode_request(ApiKey.METADATA, 1, memoryview(bytes.fromhex("00000001000178")))

    assert request.topics[0].name == "x"
    assert request.topics[0].topic_id == bytes(16)
    assert request.allow_auto_topic_creation is True
    # Only 8 to 10 have it.
    assert request.include_cluster_authorized_operations is False
    with pytest.raises(AttributeError, match="no_such_field"):
        _ = request.no_such_field


def test_a_struct_that_is_absent_reads_as_a_struct_of_defaults() -> None:
    request = make_request(ApiKey.FETCH, {"topics": [{"partitions": [{"partition": 4}]}]})

    assert request.replica_state.replica_id == -1
    assert request.topics[0].partitions[0].partition == 4
    assert request.topics[0].partitions[0].high_watermark == (1 << 63) - 1
    assert request.rack_id == ""


def test_a_message_made_by_hand_has_only_its_own_fields() -> None:
    message = Message(name="x")

    assert message.name == "x"
    assert isinstance(message, SimpleNamespace)
    with pytest.raises(AttributeError):
        _ = message.topics


def test_a_null_that_the_schema_forbids_is_our_fault_and_said_so() -> None:
    with pytest.raises(ValueError, match="cannot be null"):
        encode_response(ApiKey.METADATA, 1, {"topics": None})
