"""Headers, Produce and Fetch: read by hand, held against what kio wrote, and against bad bytes."""

import io
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as HeaderV1
from kio.schema.request_header.v2.header import RequestHeader as HeaderV2
from kio.serial import entity_writer

from pykraft.protocol.decoding import decode_request, read_request_header
from pykraft.protocol.encoding import encode_request, response_header
from pykraft.protocol.errors import ProtocolError
from pykraft.protocol.hot_requests import (
    FetchRequest,
    ProduceRequest,
    decode_fetch,
    decode_produce,
)
from pykraft.protocol.readers import ELEMENTS_MAX
from pykraft.protocol.schema import known_versions
from pykraft.protocol.versions import SERVED_VERSIONS, ApiKey, is_flexible

DECODERS = {ApiKey.PRODUCE: decode_produce, ApiKey.FETCH: decode_fetch}
HOT = [(key, version) for key in DECODERS for version in known_versions(key)]
SERVED = [
    (key, version)
    for key, (first, last) in SERVED_VERSIONS.items()
    for version in range(first, last + 1)
]


def decode(key: int, version: int, data: bytes) -> object:
    if key in DECODERS:
        return DECODERS[ApiKey(key)](version, memoryview(data), 0)
    return decode_request(key, version, memoryview(data))


def produce_fields(request: ProduceRequest) -> dict[str, Any]:
    return {
        "acks": request.acks,
        "timeout": request.timeout_ms,
        "transactional_id": request.transactional_id,
        "topic_data": [
            (name, topic_id, [(index, None if r is None else bytes(r)) for index, r in partitions])
            for name, topic_id, partitions in request.topics
        ],
    }


@pytest.mark.parametrize("version", known_versions(ApiKey.PRODUCE))
@given(data=st.data())
@settings(max_examples=30)
def test_produce_is_read_as_kio_wrote_it(kio: Any, version: int, data: st.DataObject) -> None:
    body = data.draw(kio.bodies("request", ApiKey.PRODUCE, version))
    written = kio.write("request", ApiKey.PRODUCE, version, body)

    request = decode_produce(version, memoryview(b"\xff" + written + b"\xff"), 1)

    assert produce_fields(request) == body | {
        "topic_data": [
            (
                topic.get("name"),
                topic.get("topic_id"),
                [(each["index"], each["records"]) for each in topic["partition_data"]],
            )
            for topic in body["topic_data"]
        ]
    }


@pytest.mark.parametrize("size", [0, 126, 127, 128, 16383, 16384, 2**21 - 1, 2**21])
@pytest.mark.parametrize("version", [8, 9])
def test_records_of_every_length_of_their_length_are_views_of_the_frame(
    version: int, size: int
) -> None:
    partition = {"index": 5, "records": b"r" * size}
    body = {"acks": 1, "topic_data": [{"name": "t", "partition_data": [partition] * 2}]}
    frame = bytearray(encode_request(ApiKey.PRODUCE, version, body))

    ((_, _, partitions),) = decode_produce(version, memoryview(frame), 0).topics

    assert [(index, bytes(records or b"")) for index, records in partitions] == [
        (5, b"r" * size)
    ] * 2
    assert all(records is not None and records.obj is frame for _, records in partitions)


def fetch_fields(version: int, request: FetchRequest) -> dict[str, Any]:
    """As a body; what the version lacks must have its default."""
    if version < 15:
        assert request.replica_epoch == -1
    if version < 7:
        assert (request.session_id, request.session_epoch) == (0, -1)
    return {
        "cluster_id": request.cluster_id,
        "replica_id": request.replica_id,
        "replica_state": {
            "replica_id": request.replica_id,
            "replica_epoch": request.replica_epoch,
        },
        "max_wait": request.max_wait_ms,
        "min_bytes": request.min_bytes,
        "max_bytes": request.max_bytes,
        "isolation_level": request.isolation_level,
        "session_id": request.session_id,
        "session_epoch": request.session_epoch,
        "topics": [
            {
                "topic": name,
                "topic_id": topic_id,
                "partitions": [partition._asdict() for partition in partitions],
            }
            for name, topic_id, partitions in request.topics
        ],
        "forgotten_topics_data": [
            {"topic": name, "topic_id": topic_id, "partitions": partitions}
            for name, topic_id, partitions in request.forgotten
        ],
        "rack_id": request.rack_id,
    }


def narrowed(value: Any, body: Any) -> Any:
    """The part of `value` that `body` also has."""
    if isinstance(body, dict):
        return {name: narrowed(value[name], inner) for name, inner in body.items()}
    if isinstance(body, list) and len(body) == len(value):
        return [narrowed(item, inner) for item, inner in zip(value, body, strict=True)]
    return value


@pytest.mark.parametrize("version", known_versions(ApiKey.FETCH))
@given(data=st.data())
@settings(max_examples=30)
def test_fetch_is_read_as_kio_wrote_it(kio: Any, version: int, data: st.DataObject) -> None:
    body = data.draw(kio.bodies("request", ApiKey.FETCH, version))
    written = kio.write("request", ApiKey.FETCH, version, body)

    request = decode_fetch(version, memoryview(b"\xff" + written + b"\xff"), 1)

    assert narrowed(fetch_fields(version, request), body) == body


@pytest.mark.parametrize(("key", "version"), HOT)
def test_unknown_tags_are_skipped_wherever_they_stand(kio: Any, key: int, version: int) -> None:
    if not is_flexible(key, version):
        return
    plain = encode_request(key, version, {"topics": [{}], "topic_data": [{"partition_data": [{}]}]})
    # The last byte is the empty tag section of the request itself.
    tagged = plain[:-1] + bytes.fromhex("02 63 00 64 02 abcd")

    assert type(decode(key, version, tagged)) is type(decode(key, version, plain))


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_a_request_cut_at_any_byte_is_refused(kio: Any, key: int, version: int) -> None:
    whole = kio.write("request", key, version, kio.fullest_body("request", key, version))

    decode(key, version, whole)
    for size in range(len(whole)):
        with pytest.raises(ProtocolError):
            decode(key, version, whole[:size])


FORGED = [
    bytes.fromhex(number)
    for number in ("7fffffff", "ffffffff", "80000000", "7fff", "ffffffff07", "ffffffff7f", "8080")
]


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_a_forged_number_anywhere_costs_little(kio: Any, key: int, version: int) -> None:
    whole = kio.write("request", key, version, kio.fullest_body("request", key, version))
    decode(key, version, whole)
    tracemalloc.start()
    try:
        for at in range(len(whole)):
            for number in FORGED:
                decode_or_refuse(key, version, whole[:at] + number + whole[at + len(number) :])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def decode_or_refuse(key: int, version: int, data: bytes) -> None:
    with suppress(ProtocolError):
        decode(key, version, data)


@given(served=st.sampled_from(SERVED), data=st.binary(max_size=400))
@settings(max_examples=1000)
def test_random_bytes_are_read_or_refused(served: tuple[int, int], data: bytes) -> None:
    decode_or_refuse(*served, data)


@pytest.mark.parametrize(
    ("key", "version", "head", "element"),
    [
        (ApiKey.METADATA, 9, "", "0100"),
        (ApiKey.PRODUCE, 9, "00 0001 00000000", "010100"),
        (ApiKey.FETCH, 12, "00" * 25, "010100"),
    ],
)
def test_more_elements_than_anybody_sends_are_refused_though_the_bytes_are_there(
    key: int, version: int, head: str, element: str
) -> None:
    tail = bytes(40)
    # One more than allowed, as a compact count in three bytes.
    count = ELEMENTS_MAX + 2
    forged = bytes((count & 0x7F | 0x80, count >> 7 & 0x7F | 0x80, count >> 14))
    data = bytes.fromhex(head) + forged + bytes.fromhex(element) * (ELEMENTS_MAX + 1) + tail

    with pytest.raises(ProtocolError, match=f"more than {ELEMENTS_MAX} elements"):
        decode(key, version, data)


def test_text_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(ProtocolError):
        decode(ApiKey.METADATA, 1, bytes.fromhex("00000001 0002 fffe"))


@pytest.mark.parametrize(
    ("key", "version"), [(ApiKey.PRODUCE, 8), (ApiKey.PRODUCE, 9), (ApiKey.API_VERSIONS, 3)]
)
@given(correlation_id=st.integers(-(2**31), 2**31 - 1), client_id=st.none() | st.text(max_size=300))
@settings(max_examples=20)
def test_a_request_header_is_read_as_kio_wrote_it(
    key: int, version: int, correlation_id: int, client_id: str | None
) -> None:
    header = HeaderV2 if is_flexible(key, version) else HeaderV1
    buffer = io.BytesIO()
    entity_writer(header)(
        buffer,
        header(
            request_api_key=key,
            request_api_version=version,
            correlation_id=correlation_id,
            client_id=client_id,
        ),
    )
    written = buffer.getvalue()

    read = read_request_header(memoryview(written + b"body"))

    assert read == (key, version, correlation_id, client_id, len(written))
    for size in range(len(written)):
        with pytest.raises(ProtocolError):
            read_request_header(memoryview(written)[:size])


@given(data=st.binary(max_size=60))
@example(bytes.fromhex("0000 0009 00000001 ffff ffffffff0f"))
def test_a_random_header_is_read_or_refused(data: bytes) -> None:
    with suppress(ProtocolError):
        read_request_header(memoryview(data))


def test_the_header_of_an_unknown_api_still_says_who_asks() -> None:
    data = bytes.fromhex("03e7 0005 00000009 0003 616263 00")

    assert read_request_header(memoryview(data)) == (999, 5, 9, "abc", 13)


def test_a_version_that_does_not_exist_yet_still_has_its_header_read() -> None:
    data = bytes.fromhex("0012 0063 00000009 ffff 01 05 02 abcd 77")

    assert read_request_header(memoryview(data)) == (18, 99, 9, None, 15)


@pytest.mark.parametrize(
    ("key", "version", "expected"),
    [
        (ApiKey.PRODUCE, 8, "00000007"),
        (ApiKey.PRODUCE, 9, "0000000700"),
        # Always the oldest header: a client asks before it knows us (KIP-511).
        (ApiKey.API_VERSIONS, 4, "00000007"),
    ],
)
def test_a_response_header_has_tags_when_the_version_is_flexible(
    key: int, version: int, expected: str
) -> None:
    assert response_header(key, version, 7).hex() == expected
