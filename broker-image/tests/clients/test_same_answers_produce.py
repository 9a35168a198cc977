"""Produce, InitProducerId and DescribeProducers: Apache Kafka and pykraft answer alike."""

import gzip

import pytest
from batches import Batch, PlainRecord, batch_of, concatenated
from differential import DESCRIBE_PRODUCERS, INIT_PRODUCER_ID, PRODUCE, Stage, same_answers
from processes import now_ms

VERSIONS = [3, 5, 7, 8, 9, 11, 12, 13]
GOOD = batch_of(b"one", b"two")
LOG_APPEND_TIME = 0x08
CONTROL = 0x20
INT32_MAX = 2**31 - 1


@pytest.mark.parametrize("version", VERSIONS)
@same_answers
def test_a_good_batch(stage: Stage, version: int) -> None:
    topic = stage.topic()
    for acks in (1, -1, 1):
        stage.produce(topic, GOOD.encode(), version=version, acks=acks)


@pytest.mark.parametrize("version", [3, 7, 9, 13])
@same_answers
def test_places_that_do_not_exist(stage: Stage, version: int) -> None:
    topic = stage.topic()
    stage.produce("unknown", GOOD.encode(), version=version)
    stage.produce(topic, GOOD.encode(), version=version, partition=99)
    stage.produce(topic, GOOD.encode(), version=version, partition=-1)


@pytest.mark.parametrize("acks", [2, -2, 100])
@same_answers
def test_acknowledgements_that_do_not_exist(stage: Stage, acks: int) -> None:
    stage.produce(stage.topic(), GOOD.encode(), acks=acks)


BAD_BATCHES = {
    "wrong crc": GOOD.with_(crc_error=1).encode(),
    "too long": GOOD.with_(length_error=10).encode(),
    "too short": GOOD.with_(length_error=-10).encode(),
    "far too long": GOOD.with_(length_error=INT32_MAX - 1000).encode(),
    "tiny length": GOOD.with_(length_error=-70).encode(),
    "negative length": GOOD.with_(length_error=-1000).encode(),
    "two batches": concatenated([GOOD, GOOD]),
    "empty": b"",
    "cut header": GOOD.encode()[:40],
    "cut records": GOOD.encode()[:-3],
    "garbage after": GOOD.encode() + b"garbage",
    "zeros after": GOOD.encode() + bytes(80),
    "magic 0": GOOD.with_(magic=0).encode(),
    "magic 1": GOOD.with_(magic=1).encode(),
    "magic 3": GOOD.with_(magic=3).encode(),
    "magic -1": GOOD.with_(magic=-1).encode(),
    "control": GOOD.with_(attributes=CONTROL).encode(),
    "count too high": GOOD.with_(count=3).encode(),
    "count too low": GOOD.with_(count=1).encode(),
    "count negative": GOOD.with_(count=-1).encode(),
    "last offset delta too high": GOOD.with_(last_offset_delta=7).encode(),
    "last offset delta negative": GOOD.with_(last_offset_delta=-1).encode(),
    "no records": Batch([]).encode(),
    "base offset not zero": GOOD.with_(base_offset=77).encode(),
    "leader epoch set": GOOD.with_(leader_epoch=42).encode(),
    "log append time set by the client": GOOD.with_(attributes=8).encode(),
    "codec 5": GOOD.with_(attributes=5).encode(),
    "codec 7": GOOD.with_(attributes=7).encode(),
    "sequence without producer": GOOD.with_(base_sequence=5).encode(),
    "producer without sequence": GOOD.with_(producer_id=5, producer_epoch=0).encode(),
    "producer without epoch": GOOD.with_(producer_id=5, base_sequence=0).encode(),
    "max timestamp wrong": GOOD.with_(max_timestamp_ms=5).encode(),
}


@pytest.mark.parametrize("what", BAD_BATCHES)
@same_answers
def test_odd_batches(stage: Stage, what: str) -> None:
    topic = stage.topic()
    stage.produce(topic, BAD_BATCHES[what])
    stage.produce(topic, BAD_BATCHES[what], version=3)
    stage.produce(topic, GOOD.encode())


@same_answers
def test_acks_zero_is_answered_by_silence_or_an_end(stage: Stage) -> None:
    topic = stage.topic()
    data = [{"name": topic, "partition_data": [{"index": 0, "records": GOOD.encode()}]}]
    stage.client.send(PRODUCE, 9, acks=0, timeout=1000, topic_data=data)
    # The next answer is the next request's: the first had none.
    stage.produce(topic, GOOD.encode())
    wrong = [{"name": topic, "partition_data": [{"index": 9, "records": GOOD.encode()}]}]
    stage.client.send(PRODUCE, 9, acks=0, timeout=1000, topic_data=wrong)
    stage.note(stage.client.is_closed_by_peer())


@same_answers
def test_sizes_over_the_topics_limit(stage: Stage) -> None:
    topic = stage.topic(max_message_bytes="300")
    fits = batch_of(b"x" * 200)
    stage.produce(topic, fits.encode())
    overhead = len(fits.encode()) - 200
    stage.produce(topic, batch_of(b"x" * (300 - overhead - 1)).encode())
    stage.produce(topic, batch_of(b"x" * (300 - overhead)).encode())
    stage.produce(topic, batch_of(b"x" * (301 - overhead)).encode())
    stage.produce(topic, batch_of(b"x" * 5000).encode())


@pytest.mark.parametrize("version", [3, 6, 7])
@same_answers
def test_zstd_needs_version_seven(stage: Stage, version: int) -> None:
    import zstandard

    plain = GOOD.encode()
    packed = zstandard.ZstdCompressor().compress(plain[61:])
    stage.produce(stage.topic(), reframed(plain, packed, codec=4), version=version)


def reframed(plain: bytes, payload: bytes, codec: int) -> bytes:
    """The batch with its records replaced by a compressed payload, checksum made right."""
    import struct

    import crc32c

    checked = struct.pack(">h", codec) + plain[23:61] + payload
    head = struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, crc32c.crc32c(checked))
    return head + checked


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@same_answers
def test_a_payload_that_is_not_what_its_codec_says(stage: Stage, codec: int) -> None:
    topic = stage.topic(compression_type="gzip" if codec != 1 else "zstd")
    stage.produce(topic, reframed(GOOD.encode(), b"not compressed", codec))


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
@same_answers
def test_records_that_a_compacted_topic_cannot_read(stage: Stage, codec: int) -> None:
    topic = stage.topic(cleanup_policy="compact")
    stage.produce(topic, reframed(GOOD.encode(), b"not what it should be", codec))
    stage.produce(topic, reframed(GOOD.encode(), gzip.compress(b"not records at all"), 1))


@same_answers
def test_a_topic_with_a_codec_of_its_own_refuses_what_others_refuse(stage: Stage) -> None:
    topic = stage.topic(compression_type="gzip")
    for what in ("wrong crc", "control", "count too high", "codec 5", "two batches"):
        stage.produce(topic, BAD_BATCHES[what])


@same_answers
def test_the_only_replica_is_enough(stage: Stage) -> None:
    stage.produce(stage.topic(min_insync_replicas="2"), GOOD.encode())


@same_answers
def test_a_batch_larger_than_a_segment(stage: Stage) -> None:
    topic = stage.topic(segment_bytes=str(1 << 20), max_message_bytes=str(1 << 22))
    stage.produce(topic, batch_of(bytes(1 << 21)).encode())


@same_answers
def test_several_partitions_have_their_own_fates(stage: Stage) -> None:
    topic = stage.topic(partitions=3)
    partitions = [
        {"index": 0, "records": GOOD.encode()},
        {"index": 1, "records": GOOD.with_(crc_error=1).encode()},
        {"index": 2, "records": GOOD.encode()},
        {"index": 3, "records": GOOD.encode()},
    ]
    data = [
        {"name": topic, "partition_data": partitions},
        {"name": "unknown", "partition_data": partitions[:1]},
    ]
    for version in (3, 9):
        stage.ask(PRODUCE, version, acks=-1, timeout=1000, topic_data=data)


@same_answers
def test_times(stage: Stage) -> None:
    hour = "3600000"
    bounded = stage.topic(
        "bounded", message_timestamp_before_max_ms=hour, message_timestamp_after_max_ms=hour
    )
    appended = stage.topic("appended", message_timestamp_type="LogAppendTime")
    day = 86_400_000
    for time in (now_ms(), now_ms() - day, now_ms() + day, -1, 0, 1):
        for topic in (bounded, appended):
            stage.produce(topic, batch_of(b"v", timestamp_ms=time).encode())
            stage.produce(topic, batch_of(b"v", timestamp_ms=time).encode(), version=3)


@same_answers
def test_a_compacted_topic_wants_keys(stage: Stage) -> None:
    topic = stage.topic(cleanup_policy="compact")
    with_key, without = PlainRecord(b"k", b"v"), PlainRecord(None, b"v")
    for version in (7, 8, 13):
        stage.produce(topic, Batch([with_key, with_key]).encode(), version=version)
        stage.produce(topic, Batch([with_key, without]).encode(), version=version)


@same_answers
def test_every_record_that_is_wrong_is_named(stage: Stage) -> None:
    topic = stage.topic(cleanup_policy="compact", message_timestamp_before_max_ms="3600000")
    with_key, without = PlainRecord(b"k", b"v"), PlainRecord(None, b"v")
    for time in (now_ms(), now_ms() - 86_400_000):
        for records in ([without] * 5, [without, with_key, without], [with_key] * 12):
            stage.produce(topic, Batch(records, timestamp_ms=time).encode())
    stamped = stage.topic("stamped", message_timestamp_type="LogAppendTime")
    stage.produce(stamped, GOOD.with_(attributes=LOG_APPEND_TIME).encode())


def numbered(sequence: int, producer_id: int, epoch: int = 0, count: int = 1) -> bytes:
    values = [b"%d" % (sequence + n) for n in range(count)]
    identity = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
    return batch_of(*values, **identity).encode()


@same_answers
def test_a_repeated_batch_is_answered_with_its_first_offset(stage: Stage) -> None:
    topic, producer = stage.topic(), stage.new_producer()
    for sequence in (0, 3, 6, 9, 12):
        stage.produce(topic, numbered(sequence, producer, count=3))
    for sequence in (12, 9, 6, 3, 0):
        stage.produce(topic, numbered(sequence, producer, count=3))


@same_answers
def test_a_batch_older_than_the_five_remembered(stage: Stage) -> None:
    topic, producer = stage.topic(), stage.new_producer()
    for sequence in range(7):
        stage.produce(topic, numbered(sequence, producer))
    for sequence in (0, 1, 2, 6, 7):
        stage.produce(topic, numbered(sequence, producer))


@same_answers
def test_sequences_out_of_order(stage: Stage) -> None:
    topic, producer = stage.topic(), stage.new_producer()
    stage.produce(topic, numbered(0, producer, count=2))
    stage.produce(topic, numbered(5, producer))
    stage.produce(topic, numbered(1, producer, count=2))
    stage.produce(topic, numbered(0, producer, count=3))
    stage.produce(topic, numbered(2, producer))


@same_answers
def test_a_producer_that_the_partition_does_not_know(stage: Stage) -> None:
    topic, producer = stage.topic(), stage.new_producer()
    stage.produce(topic, numbered(40, producer))
    stage.produce(topic, numbered(41, producer))
    stage.produce(topic, numbered(43, producer))


@same_answers
def test_epochs_of_a_producer(stage: Stage) -> None:
    topic, producer = stage.topic(), stage.new_producer()
    stage.produce(topic, numbered(0, producer, epoch=3))
    stage.produce(topic, numbered(1, producer, epoch=2))
    stage.produce(topic, numbered(7, producer, epoch=4))
    stage.produce(topic, numbered(0, producer, epoch=4))
    stage.produce(topic, numbered(1, producer, epoch=3))


@same_answers
def test_sequences_wrap(stage: Stage) -> None:
    topic, producer = stage.topic(), stage.new_producer()
    stage.produce(topic, numbered(INT32_MAX - 1, producer, count=1))
    stage.produce(topic, numbered(INT32_MAX, producer, count=2))
    stage.produce(topic, numbered(1, producer))
    stage.produce(topic, numbered(INT32_MAX, producer, count=2))


@pytest.mark.parametrize("version", range(6))
@same_answers
def test_init_producer_id(stage: Stage, version: int) -> None:
    stage.new_producer()
    plain = {"transactional_id": None, "transaction_timeout": 60_000}
    stage.ask(INIT_PRODUCER_ID, version, **plain)
    stage.ask(INIT_PRODUCER_ID, version, **{**plain, "transactional_id": ""})
    if version >= 3:
        for producer_id, epoch in ((5, 0), (5, -1), (-1, 5), (-5, 3), (0, 0)):
            stage.ask(
                INIT_PRODUCER_ID, version, **plain, producer_id=producer_id, producer_epoch=epoch
            )


@same_answers
def test_producers_are_described(stage: Stage) -> None:
    topic, producer = stage.topic(partitions=2), stage.new_producer()
    wanted = [{"name": topic, "partition_indexes": [0, 1, 9]}]
    stage.ask(DESCRIBE_PRODUCERS, 0, topics=wanted)
    stage.fill(topic, numbered(0, producer, count=4), numbered(4, producer, epoch=0))
    stage.ask(DESCRIBE_PRODUCERS, 0, topics=wanted)
    stage.ask(DESCRIBE_PRODUCERS, 0, topics=[{"name": "unknown", "partition_indexes": [0]}])
    stage.ask(DESCRIBE_PRODUCERS, 0, topics=[{"name": "bad name", "partition_indexes": [0]}])
