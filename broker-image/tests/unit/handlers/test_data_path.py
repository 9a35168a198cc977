"""Produce and Fetch as conversations: who waits for what, and what wakes them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from asked_broker import NOW_MS, AskedBroker
from batches import Batch, PlainRecord, batch_of
from stepped_world import SteppedWorld

from pykraft.core.storage import StorageError
from pykraft.handlers.context import Part, RequestContext
from pykraft.handlers.fetch import handle_fetch
from pykraft.handlers.produce import handle_produce
from pykraft.protocol.decoding import Message, decode_response
from pykraft.protocol.encoding import encode_request
from pykraft.protocol.errors import ErrorCode
from pykraft.protocol.versions import ApiKey
from pykraft.records.compression import GZIP
from pykraft.records.records import Record, build_batch

RAW = {ApiKey.PRODUCE: handle_produce, ApiKey.FETCH: handle_fetch}


class Asked:
    """One request and, once it is there, its answer."""

    def __init__(self, conversation: "Conversation", api_key: ApiKey, version: int, body: Any):
        self.api_key, self.version = api_key, version
        self.sent: list[Sequence[Part] | None] = []
        self.disconnected = False
        self.context = RequestContext(
            api_key,
            version,
            1,
            b"tester",
            "PLAINTEXT",
            "127.0.0.1:50000",
            conversation.broker.counters.request(api_key),
            0,
            lambda _, parts: self.sent.append(parts),
            self._disconnect,
        )
        frame = memoryview(encode_request(api_key, version, body))
        RAW[api_key](conversation.broker, self.context, frame, 0)

    def _disconnect(self) -> None:
        self.disconnected = True

    @property
    def answer(self) -> Message:
        assert len(self.sent) == 1, f"answered {len(self.sent)} times"
        parts = self.sent[0]
        assert parts is not None
        joined = b"".join(
            part if isinstance(part, bytes) else part.file.read_at(part.position, part.size)
            for part in parts
        )
        return decode_response(self.api_key, self.version, memoryview(joined))


class Conversation:
    def __init__(self, folder: Path) -> None:
        self.node = AskedBroker(folder)
        self.broker = self.node.broker
        self.world = SteppedWorld(NOW_MS)
        self.broker.world = self.world

    def produce(self, *values: bytes, topic: str = "t", acks: int = -1, index: int = 0) -> Asked:
        records = batch_of(*values, timestamp_ms=NOW_MS).encode()
        return self.produce_all((topic, index, records), acks=acks)

    def produce_all(self, *batches: tuple[str, int, bytes], acks: int = -1) -> Asked:
        """Each in a topic entry of its own, so that a topic may be named twice."""
        data = [
            {"name": topic, "partition_data": [{"index": index, "records": records}]}
            for topic, index, records in batches
        ]
        body = {"acks": acks, "timeout": 1000, "transactional_id": None, "topic_data": data}
        return Asked(self, ApiKey.PRODUCE, 9, body)

    def fetch(
        self,
        *offsets: int,
        topic: str = "t",
        min_bytes: int = 1,
        session: tuple[int, int] = (0, -1),
        indexes: Sequence[int] = range(10),
    ) -> Asked:
        partitions = [
            {"partition": index, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
            for index, offset in zip(indexes, offsets, strict=False)
        ]
        body = {
            "max_wait": 500,
            "min_bytes": min_bytes,
            "max_bytes": 1 << 20,
            "session_id": session[0],
            "session_epoch": session[1],
            "topics": [{"topic": topic, "partitions": partitions}] if partitions else [],
        }
        return Asked(self, ApiKey.FETCH, 12, body)


@pytest.fixture
def talk(tmp_path: Path) -> Conversation:
    return Conversation(tmp_path)


def error_of(asked: Asked) -> int:
    if asked.api_key == ApiKey.PRODUCE:
        return int(asked.answer.responses[0].partition_responses[0].error_code)
    return int(asked.answer.responses[0].partitions[0].error_code)


def test_with_flush_messages_the_answer_waits_for_the_disk(talk: Conversation) -> None:
    partition = talk.node.create("t", flush_messages="1")
    asked = talk.produce(b"a")
    assert asked.sent == []
    assert partition.log.recovery_point == 0
    talk.world.settle()
    assert error_of(asked) == ErrorCode.NONE
    assert partition.log.recovery_point == 1


def test_a_flush_that_fails_is_not_acknowledged(
    talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = talk.node.create("t", flush_messages="1")
    failed: list[StorageError] = []
    partition.on_storage_error = lambda _, error: failed.append(error)

    def refuse(_: object) -> None:
        raise StorageError("the disk is gone")

    monkeypatch.setattr("pykraft.core.log.flushing.Flush.run", refuse)
    asked = talk.produce(b"a")
    talk.world.settle()
    assert error_of(asked) == ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.log.recovery_point == 0
    assert len(failed) == 1


def test_who_comes_while_a_flush_is_under_way_shares_the_next(talk: Conversation) -> None:
    partition = talk.node.create("t", flush_messages="1")
    first = talk.produce(b"a")
    others = [talk.produce(b"b"), talk.produce(b"c")]
    assert len(talk.world.jobs) == 1
    talk.world.work()
    assert error_of(first) == ErrorCode.NONE
    assert [other.sent for other in others] == [[], []]
    assert partition.log.recovery_point == 1
    talk.world.work()
    assert [error_of(other) for other in others] == [ErrorCode.NONE] * 2
    assert partition.log.recovery_point == 3
    assert not talk.world.jobs
    assert talk.broker.counters.node.log_flushes == 2


def test_a_produce_waits_for_a_flush_that_housekeeping_began(talk: Conversation) -> None:
    partition = talk.node.create("t", flush_messages="1")
    log = partition.log
    under_way = log.begin_flush()
    assert under_way is not None
    asked = talk.produce(b"a")
    assert not talk.world.jobs
    log.finish_flush(under_way, NOW_MS)
    assert asked.sent == []
    talk.world.settle()
    assert error_of(asked) == ErrorCode.NONE
    assert log.recovery_point == 1


def test_a_topic_that_goes_while_its_flush_is_under_way_is_told(talk: Conversation) -> None:
    partition = talk.node.create("t", flush_messages="1")
    asked = talk.produce(b"a")
    partition.log.close(clean=False)
    partition.fail_waiters(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert error_of(asked) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    talk.world.settle()
    assert len(asked.sent) == 1


def test_without_flush_messages_nothing_waits(talk: Conversation) -> None:
    talk.node.create("t")
    assert error_of(talk.produce(b"a")) == ErrorCode.NONE
    assert not talk.world.jobs


def test_a_refused_produce_without_acks_loses_its_connection(talk: Conversation) -> None:
    asked = talk.produce(b"a", topic="unknown", acks=0)
    assert asked.disconnected
    assert asked.sent == []


def test_a_batch_in_another_codec_is_compressed_by_a_worker_before_it_is_stored(
    talk: Conversation,
) -> None:
    partition = talk.node.create("t", compression_type="zstd")
    asked = talk.produce(b"a" * 1000)
    assert partition.log.log_end_offset == 0
    talk.world.settle()
    assert error_of(asked) == ErrorCode.NONE
    assert partition.log.size < 500


def test_what_is_too_large_is_refused_before_a_worker_sees_it(talk: Conversation) -> None:
    talk.node.create("t", compression_type="zstd", max_message_bytes="1000")
    asked = talk.produce(b"a" * 2000)
    assert error_of(asked) == ErrorCode.MESSAGE_TOO_LARGE
    assert not talk.world.jobs
    counters = talk.broker.counters.topic("t")
    assert counters.bytes_rejected > 2000
    assert (counters.produce_requests, counters.failed_produce, counters.bytes_in) == (1, 1, 0)


def test_what_a_worker_finds_wrong_refuses_that_batch_alone(talk: Conversation) -> None:
    talk.node.create("t", partitions=2, compression_type="zstd")
    unreadable = Batch([PlainRecord(None, b"x")], timestamp_ms=NOW_MS, attributes=GZIP)
    good = batch_of(b"a", timestamp_ms=NOW_MS).encode()
    asked = talk.produce_all(("t", 0, unreadable.encode()), ("t", 1, good))
    talk.world.settle()
    told = asked.answer.responses[0].partition_responses
    assert [p.error_code for p in told] == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]
    assert talk.broker.counters.topic("t").produce_requests == 2


def keyed(*keys: bytes | None, attributes: int = 0) -> bytes:
    records = [Record(key, b"v") for key in keys]
    return build_batch(records, timestamp_ms=NOW_MS, attributes=attributes)


@pytest.mark.parametrize("codec", ["producer", "lz4"])
def test_compressed_records_for_a_compacted_topic_are_looked_at_by_a_worker(
    talk: Conversation, codec: str
) -> None:
    talk.node.create("t", cleanup_policy="compact", compression_type=codec)
    with_keys = talk.produce_all(("t", 0, keyed(b"k", attributes=GZIP)))
    without = talk.produce_all(("t", 0, keyed(b"k", None, attributes=GZIP)))
    assert [with_keys.sent, without.sent] == [[], []]
    talk.world.settle()
    assert error_of(with_keys) == ErrorCode.NONE
    assert error_of(without) == ErrorCode.INVALID_RECORD
    assert talk.node.partition("t").log.log_end_offset == 1
    assert talk.broker.counters.topic("t").produce_requests == 2


@pytest.mark.parametrize("others", [(), ("u",)])
def test_a_partition_that_a_produce_names_twice_takes_the_last_batch(
    talk: Conversation, others: tuple[str, ...]
) -> None:
    for topic in ("t", *others):
        talk.node.create(topic)
    short, long = keyed(b"k"), keyed(b"k", b"k", b"k")
    between = [(topic, 0, short) for topic in others]
    asked = talk.produce_all(("t", 0, short), *between, ("t", 0, long))
    told = [(t.name, [p.index for p in t.partition_responses]) for t in asked.answer.responses]
    assert told == [(topic, [0]) for topic in ("t", *others)]
    assert talk.node.partition("t").log.log_end_offset == 3


def test_acks_that_do_not_exist_are_refused_where_the_partition_exists(talk: Conversation) -> None:
    talk.node.create("t")
    asked = talk.produce_all(("t", 0, keyed(b"k")), ("t", 9, keyed(b"k")), ("u", 0, b""), acks=5)
    told = [p.error_code for t in asked.answer.responses for p in t.partition_responses]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert told == [ErrorCode.INVALID_REQUIRED_ACKS, unknown, unknown]


def test_a_fetch_at_the_end_waits_until_a_record_comes(talk: Conversation) -> None:
    talk.node.create("t")
    asked = talk.fetch(0)
    assert asked.sent == []
    assert talk.broker.counters.node.fetch_purgatory == 1
    talk.produce(b"a")
    assert asked.answer.responses[0].partitions[0].high_watermark == 1
    assert len(asked.answer.responses[0].partitions[0].records) > 0
    assert talk.broker.counters.node.fetch_purgatory == 0


def test_a_fetch_waits_for_min_bytes_of_all_its_partitions_together(talk: Conversation) -> None:
    talk.node.create("t", partitions=2)
    asked = talk.fetch(0, 0, min_bytes=500)
    talk.produce(b"a" * 200)
    assert asked.sent == []
    talk.produce(b"a" * 200, index=1)
    assert [len(p.records) > 200 for p in asked.answer.responses[0].partitions] == [True, True]


def test_a_fetch_that_waited_long_enough_is_answered_with_what_there_is(
    talk: Conversation,
) -> None:
    talk.node.create("t")
    asked = talk.fetch(0)
    talk.world.advance(499)
    assert asked.sent == []
    talk.world.advance(1)
    assert error_of(asked) == ErrorCode.NONE
    assert talk.broker.counters.node.fetch_expired == 1


def test_a_client_that_hangs_up_leaves_nobody_waiting(talk: Conversation) -> None:
    partition = talk.node.create("t")
    asked = talk.fetch(0)
    assert asked.context.on_close is not None
    asked.context.on_close()
    assert partition.fetch_waiters == []
    assert talk.broker.counters.node.fetch_purgatory == 0
    talk.world.advance(1000)
    assert asked.sent == []


def test_a_long_poll_ends_when_the_log_directory_fails(talk: Conversation) -> None:
    partition = talk.node.create("t")
    asked = talk.fetch(0)
    partition.take_offline()
    assert error_of(asked) == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("session", [(0, -1), (0, 0)])
def test_a_partition_that_a_fetch_names_twice_is_answered_once_by_its_last_entry(
    talk: Conversation, session: tuple[int, int]
) -> None:
    talk.node.create("t")
    asked = talk.fetch(7, 0, indexes=(0, 0), session=session)
    assert asked.sent == []
    talk.produce(b"a")
    (told,) = asked.answer.responses[0].partitions
    assert (told.partition_index, told.error_code, told.high_watermark) == (0, 0, 1)


def test_a_read_that_fails_while_others_wait_answers_each_of_them_once(
    talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = talk.node.create("t")
    partition.on_storage_error = lambda failed, _: failed.take_offline()
    waiting = [talk.fetch(0) for _ in range(3)]

    def refuse(*_: object, **__: object) -> None:
        raise StorageError("the disk is gone")

    monkeypatch.setattr("pykraft.core.log.partition_log.PartitionLog.read", refuse)
    talk.produce(b"a")
    assert [error_of(asked) for asked in waiting] == [ErrorCode.KAFKA_STORAGE_ERROR] * 3
    assert talk.broker.counters.node.fetch_purgatory == 0


def test_a_fetch_waits_also_if_some_of_its_partitions_do_not_exist(talk: Conversation) -> None:
    talk.node.create("t")
    asked = talk.fetch(0, 0)
    assert asked.sent == []
    talk.produce(b"a")
    told = [(p.error_code, p.high_watermark) for p in asked.answer.responses[0].partitions]
    assert told == [(ErrorCode.NONE, 1), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]
    assert talk.node.errors(ApiKey.FETCH) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 1}


def test_a_fetch_of_nothing_that_exists_is_answered_at_once(talk: Conversation) -> None:
    assert error_of(talk.fetch(0, topic="gone")) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_fetch_with_an_offset_out_of_range_is_answered_at_once(talk: Conversation) -> None:
    talk.node.create("t", partitions=2)
    asked = talk.fetch(0, 7)
    told = [p.error_code for p in asked.answer.responses[0].partitions]
    assert told == [ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE]


def test_every_partition_of_a_fetch_counts_whether_it_has_records_or_not(
    talk: Conversation,
) -> None:
    talk.node.create("t", partitions=3)
    talk.produce(b"a")
    talk.fetch(0, 0, 7)
    counters = talk.broker.counters.topic("t")
    assert (counters.fetch_requests, counters.failed_fetch) == (3, 1)
    assert counters.bytes_out == counters.bytes_in


def test_an_incremental_answer_tells_only_what_is_new(talk: Conversation) -> None:
    talk.node.create("t", partitions=2)
    talk.produce(b"a")
    first = talk.fetch(0, 0, session=(0, 0)).answer
    assert [p.partition_index for p in first.responses[0].partitions] == [0, 1]
    asked = talk.fetch(session=(first.session_id, 1))
    assert [p.partition_index for p in asked.answer.responses[0].partitions] == [0]
    talk.produce(b"b", index=1)
    again = talk.fetch(1, session=(first.session_id, 2))
    assert [p.partition_index for p in again.answer.responses[0].partitions] == [1]


def test_an_empty_incremental_answer_has_no_topics(talk: Conversation) -> None:
    talk.node.create("t")
    session_id = talk.fetch(0, session=(0, 0), min_bytes=0).answer.session_id
    assert session_id != 0
    asked = talk.fetch(session=(session_id, 1))
    talk.world.advance(500)
    assert asked.answer.responses == []
    assert asked.answer.session_id == session_id


def test_the_first_batch_is_sent_whole_however_little_was_asked_for(talk: Conversation) -> None:
    talk.node.create("t")
    talk.produce(b"a" * 5000)
    asked = Asked(
        talk,
        ApiKey.FETCH,
        12,
        {
            "max_wait": 0,
            "min_bytes": 1,
            "max_bytes": 10,
            "session_epoch": -1,
            "topics": [
                {
                    "topic": "t",
                    "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 10}],
                }
            ],
        },
    )
    assert len(asked.answer.responses[0].partitions[0].records) > 5000
