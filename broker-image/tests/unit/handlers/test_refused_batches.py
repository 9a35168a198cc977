"""Produce: one partition is refused and the others are not."""

from pathlib import Path
from typing import Any

import crc32c
import pytest
from asked_broker import NOW_MS, AskedBroker
from batches import batch_of
from stepped_world import SteppedWorld

from pykraft.handlers.context import Part, RequestContext
from pykraft.handlers.produce import handle_produce
from pykraft.protocol.decoding import decode_response
from pykraft.protocol.encoding import encode_request
from pykraft.protocol.errors import ErrorCode
from pykraft.protocol.versions import ApiKey

GOOD = batch_of(b"v", timestamp_ms=NOW_MS).encode()
GZIP, ZSTD = 1, 4


def claiming(codec: int) -> bytes:
    """A batch whose records are not compressed although its header says so."""
    checked = bytes([0, codec]) + GOOD[23:]
    return GOOD[:17] + crc32c.crc32c(checked).to_bytes(4, "big") + checked


@pytest.fixture
def node(tmp_path: Path) -> AskedBroker:
    node = AskedBroker(tmp_path)
    node.broker.world = SteppedWorld(NOW_MS)
    return node


def produce(node: AskedBroker, *batches: tuple[str, bytes], version: int = 9) -> list[Any]:
    """The answers to batches for the first partitions of topics, in order."""
    sent: list[Part] = []
    context = RequestContext(
        ApiKey.PRODUCE,
        version,
        1,
        b"tester",
        "PLAINTEXT",
        "127.0.0.1:50000",
        node.broker.counters.request(ApiKey.PRODUCE),
        0,
        lambda _, parts: sent.extend(parts or ()),
        lambda: None,
    )
    data = [
        {"name": topic, "partition_data": [{"index": 0, "records": records}]}
        for topic, records in batches
    ]
    body = {"acks": -1, "timeout": 1000, "transactional_id": None, "topic_data": data}
    handle_produce(node.broker, context, memoryview(encode_request(0, version, body)), 0)
    world = node.broker.world
    assert isinstance(world, SteppedWorld)
    world.settle()
    answer = b"".join(part for part in sent if isinstance(part, bytes))
    decoded = decode_response(ApiKey.PRODUCE, version, memoryview(answer))
    return [topic.partition_responses[0] for topic in decoded.responses]


def test_a_payload_that_cannot_be_recompressed_is_refused_alone(node: AskedBroker) -> None:
    for topic in ("bad", "good", "plain"):
        node.create(topic, **({} if topic == "plain" else {"compression_type": "zstd"}))
    answers = produce(node, ("bad", claiming(GZIP)), ("good", GOOD), ("plain", GOOD))
    assert [each.error_code for each in answers] == [ErrorCode.UNKNOWN_SERVER_ERROR, 0, 0]
    assert [each.log_start_offset for each in answers] == [0, 0, 0]
    assert answers[0].error_message is None


@pytest.mark.parametrize("compression", ["producer", "gzip"])
def test_zstd_below_version_seven_is_refused_alone(node: AskedBroker, compression: str) -> None:
    node.create("new", compression_type=compression)
    node.create("old")
    answers = produce(node, ("new", claiming(ZSTD)), ("old", GOOD), version=6)
    assert [each.error_code for each in answers] == [ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, 0]


def test_records_that_are_wrong_are_named_in_the_answer(node: AskedBroker) -> None:
    node.create("keys", cleanup_policy="compact")
    (answer,) = produce(node, ("keys", GOOD))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in answer.record_errors] == [0]
    assert answer.error_message is not None


def test_the_only_replica_is_enough_whatever_min_insync_replicas_says(node: AskedBroker) -> None:
    node.create("t", min_insync_replicas="2")
    (answer,) = produce(node, ("t", GOOD))
    assert answer.error_code == ErrorCode.NONE
