"""The responses written by hand are kio's, byte for byte, in every version."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from pykraft.protocol.hot_responses import (
    FetchPartitionReply,
    ProducePartitionReply,
    encode_fetch_response,
    encode_list_offsets_response,
    encode_produce_response,
)
from pykraft.protocol.metadata_response import encode_metadata_response
from pykraft.protocol.schema import known_versions
from pykraft.protocol.versions import ApiKey

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
ERRORS = st.sampled_from([int(code) for code in ErrorCode])
NAMES = st.text(max_size=140)
IDS = st.binary(min_size=16, max_size=16)
# What kio's datetime can hold; -1 is none.
TIMES = st.integers(-1, 1 << 41)
# The defaults of a tagged field are not written, and we give None for them.
LEADERS = st.none() | st.tuples(st.integers(0, 2**31 - 1), INT32)
ENDPOINTS = st.lists(st.tuples(INT32, NAMES, INT32, st.none() | NAMES), max_size=3)


def topics_of(partitions: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(st.tuples(NAMES, IDS, st.lists(partitions, max_size=3)), max_size=3)


# A count above 126 takes two bytes.
MANY = 130


def endpoint_bodies(endpoints: Any) -> list[dict[str, Any]]:
    names = ("node_id", "host", "port", "rack")
    return [dict(zip(names, endpoint, strict=True)) for endpoint in endpoints]


def leader_body(leader: tuple[int, int] | None) -> dict[str, int]:
    leader_id, epoch = leader or (-1, -1)
    return {"leader_id": leader_id, "leader_epoch": epoch}


PLAIN_PRODUCE_REPLIES = st.tuples(INT32, ERRORS, INT64, TIMES, INT64)
PRODUCE_REPLIES = (
    PLAIN_PRODUCE_REPLIES
    | st.tuples(
        INT32,
        ERRORS,
        INT64,
        TIMES,
        INT64,
        st.none() | NAMES,
        LEADERS,
        st.lists(st.tuples(INT32, st.none() | NAMES), max_size=2),
    )
).map(lambda reply: ProducePartitionReply(*reply))


def produce_body(reply: ProducePartitionReply) -> dict[str, Any]:
    return {
        "index": reply.index,
        "error_code": reply.error,
        "base_offset": reply.base_offset,
        "log_append_time": reply.log_append_time_ms,
        "log_start_offset": reply.log_start_offset,
        "record_errors": [
            {"batch_index": index, "batch_index_error_message": message}
            for index, message in reply.record_errors
        ],
        "error_message": reply.error_message,
        "current_leader": leader_body(reply.current_leader),
    }


@pytest.mark.parametrize("version", known_versions(ApiKey.PRODUCE))
@given(topics=topics_of(PRODUCE_REPLIES), throttle_ms=INT32, endpoints=ENDPOINTS)
@example([("t", b"u" * 16, [ProducePartitionReply(1, 0, 2, -1, 3)] * MANY)], 0, [])
@settings(max_examples=25)
def test_produce_response(
    kio: Any, version: int, topics: Any, throttle_ms: int, endpoints: Any
) -> None:
    body = {
        "responses": [
            {
                "name": name,
                "topic_id": topic_id,
                "partition_responses": [produce_body(reply) for reply in partitions],
            }
            for name, topic_id, partitions in topics
        ],
        "throttle_time": throttle_ms,
        "node_endpoints": endpoint_bodies(endpoints),
    }

    written = encode_produce_response(version, topics, throttle_ms, endpoints)

    assert written == kio.write("response", ApiKey.PRODUCE, version, body)


FETCH_REPLIES = st.tuples(
    INT32,
    ERRORS,
    INT64,
    INT64,
    INT64,
    st.none() | st.lists(st.tuples(INT64, INT64), max_size=2),
    INT32,
    st.integers(0, 3) | st.integers(100, 300),
    st.none() | st.tuples(st.integers(0, 2**31 - 1), INT64),
    LEADERS,
    st.none() | st.tuples(st.integers(0, 2**63 - 1), INT32),
).map(lambda reply: FetchPartitionReply(*reply))
MANY_FETCH_REPLIES = [FetchPartitionReply(1, 0, 2, 3, 4, None, records_size=200)] * MANY


def fetch_body(reply: FetchPartitionReply, records: bytes) -> dict[str, Any]:
    epoch, end_offset = reply.diverging or (-1, -1)
    snapshot_end, snapshot_epoch = reply.snapshot_id or (-1, -1)
    aborted = reply.aborted
    return {
        "partition_index": reply.index,
        "error_code": reply.error,
        "high_watermark": reply.high_watermark,
        "last_stable_offset": reply.last_stable_offset,
        "log_start_offset": reply.log_start_offset,
        "aborted_transactions": aborted
        if aborted is None
        else [{"producer_id": producer, "first_offset": first} for producer, first in aborted],
        "preferred_read_replica": reply.preferred_read_replica,
        "records": records,
        "diverging_epoch": {"epoch": epoch, "end_offset": end_offset},
        "current_leader": leader_body(reply.current_leader),
        "snapshot_id": {"end_offset": snapshot_end, "epoch": snapshot_epoch},
    }


@pytest.mark.parametrize("version", known_versions(ApiKey.FETCH))
@given(
    topics=topics_of(FETCH_REPLIES),
    head=st.tuples(ERRORS, INT32, INT32),
    endpoints=ENDPOINTS,
)
@example([("t", b"u" * 16, MANY_FETCH_REPLIES)], (0, 0, 0), [])
@settings(max_examples=25)
def test_fetch_response_around_its_records(
    kio: Any, version: int, topics: Any, head: tuple[int, int, int], endpoints: Any
) -> None:
    error, session_id, throttle_ms = head
    replies = [reply for _, _, partitions in topics for reply in partitions]
    records = [bytes((n & 0xFF,)) * reply.records_size for n, reply in enumerate(replies)]
    left = iter(records)
    body = {
        "throttle_time": throttle_ms,
        "error_code": error,
        "session_id": session_id,
        "responses": [
            {
                "topic": name,
                "topic_id": topic_id,
                "partitions": [fetch_body(reply, next(left)) for reply in partitions],
            }
            for name, topic_id, partitions in topics
        ],
        "node_endpoints": endpoint_bodies(endpoints),
    }

    pieces = encode_fetch_response(
        version, error, session_id, topics, throttle_ms=throttle_ms, node_endpoints=endpoints
    )

    gaps = [each for each in records if each]
    assert len(pieces) == len(gaps) + 1
    written = pieces[0] + b"".join(gap + piece for gap, piece in zip(gaps, pieces[1:], strict=True))
    assert written == kio.write("response", ApiKey.FETCH, version, body)


@pytest.mark.parametrize("version", known_versions(ApiKey.LIST_OFFSETS))
@given(
    topics=topics_of(st.tuples(INT32, ERRORS, INT64, INT64, INT32)).map(
        lambda topics: [(name, partitions) for name, _, partitions in topics]
    ),
    throttle_ms=INT32,
)
@settings(max_examples=20)
def test_list_offsets_response(kio: Any, version: int, topics: Any, throttle_ms: int) -> None:
    names = ("partition_index", "error_code", "timestamp", "offset", "leader_epoch")
    body = {
        "throttle_time": throttle_ms,
        "topics": [
            {
                "name": name,
                "partitions": [dict(zip(names, reply, strict=True)) for reply in partitions],
            }
            for name, partitions in topics
        ],
    }

    written = encode_list_offsets_response(version, topics, throttle_ms)

    assert written == kio.write("response", ApiKey.LIST_OFFSETS, version, body)


REPLICAS = st.lists(INT32, max_size=4)
METADATA_PARTITIONS = st.tuples(ERRORS, INT32, INT32, INT32, REPLICAS, REPLICAS, REPLICAS)


@pytest.mark.parametrize("version", known_versions(ApiKey.METADATA))
@given(data=st.data())
@settings(max_examples=25)
def test_metadata_response(kio: Any, version: int, data: st.DataObject) -> None:
    # A topic that was asked for by an id that nobody knows has no name.
    names = NAMES if version < 12 else st.none() | NAMES
    topics = data.draw(
        st.lists(
            st.tuples(
                ERRORS, names, IDS, st.booleans(), st.lists(METADATA_PARTITIONS, max_size=3), INT32
            ),
            max_size=3,
        )
    )
    brokers = data.draw(ENDPOINTS)
    cluster_id = data.draw(st.none() | NAMES)
    throttle_ms, controller_id, operations = data.draw(st.tuples(INT32, INT32, INT32))
    error = data.draw(ERRORS)

    written = encode_metadata_response(
        version,
        brokers=brokers,
        cluster_id=cluster_id,
        controller_id=controller_id,
        topics=topics,
        throttle_ms=throttle_ms,
        cluster_authorized_operations=operations,
        error=error,
    )

    body = {
        "throttle_time": throttle_ms,
        "brokers": endpoint_bodies(brokers),
        "cluster_id": cluster_id,
        "controller_id": controller_id,
        "topics": [metadata_topic_body(topic) for topic in topics],
        "cluster_authorized_operations": operations,
        "error_code": error,
    }
    assert written == kio.write("response", ApiKey.METADATA, version, body)


def metadata_topic_body(topic: Any) -> dict[str, Any]:
    error, name, topic_id, is_internal, partitions, operations = topic
    names = (
        "error_code",
        "partition_index",
        "leader_id",
        "leader_epoch",
        "replica_nodes",
        "isr_nodes",
        "offline_replicas",
    )
    return {
        "error_code": error,
        "name": name,
        "topic_id": topic_id,
        "is_internal": is_internal,
        "partitions": [dict(zip(names, partition, strict=True)) for partition in partitions],
        "topic_authorized_operations": operations,
    }


def test_a_topic_without_a_name_cannot_be_told_to_an_old_client() -> None:
    with pytest.raises(ValueError, match="without a name"):
        encode_metadata_response(
            11,
            brokers=[],
            cluster_id=None,
            controller_id=1,
            topics=[(100, None, b"u" * 16, False, [], 0)],
        )
