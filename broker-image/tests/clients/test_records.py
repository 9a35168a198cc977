"""Large records, timestamps of both kinds and recompression, as clients see them."""

import random
import subprocess

import pytest
from batches import PlainRecord
from clients import CLIENTS, CODECS, Confluent, confluent_consumer, run_kcat
from confluent_kafka import TopicPartition
from processes import Node, now_ms

MEGABYTE = 1 << 20
# Those that can set a record's time.
DATED = ("confluent-kafka", "aiokafka", "kafka-python")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_megabyte_goes_through_where_the_topic_allows_it(
    broker: Node, new_topic, client: str
) -> None:
    topic = new_topic(configs={"max.message.bytes": str(2 * MEGABYTE)})
    value = random.Random(7).randbytes(MEGABYTE // 2).hex().encode()
    record = PlainRecord(b"k", value, (("size", b"1048576"),))
    CLIENTS[client].produce(broker.bootstrap, topic, [record])
    (consumed,) = CLIENTS[client].consume(broker.bootstrap, topic, 1)
    assert consumed.as_sent() == record


def test_a_megabyte_is_refused_where_the_topic_does_not_allow_it(broker: Node, new_topic) -> None:
    topic = new_topic(configs={"max.message.bytes": "1000"})
    with pytest.raises(AssertionError, match="MSG_SIZE_TOO_LARGE"):
        Confluent().produce(broker.bootstrap, topic, [PlainRecord(None, b"x" * MEGABYTE)])


@pytest.mark.parametrize("client", DATED)
def test_the_producers_time_is_kept_with_create_time(broker: Node, new_topic, client: str) -> None:
    topic = new_topic()
    times = [1_600_000_000_000, 1_600_000_000_123, 1_500_000_000_000]
    records = [PlainRecord(None, b"v", (), time) for time in times]
    CLIENTS[client].produce(broker.bootstrap, topic, records)
    consumed = CLIENTS[client].consume(broker.bootstrap, topic, 3)
    assert [(each.timestamp_ms, each.log_append_time) for each in consumed] == [
        (time, False) for time in times
    ]


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("client", DATED)
def test_the_brokers_time_is_given_with_log_append_time(
    broker: Node, new_topic, client: str, codec: str
) -> None:
    topic = new_topic(configs={"message.timestamp.type": "LogAppendTime"})
    before = now_ms()
    records = [PlainRecord(None, b"v", (), 1_600_000_000_000 + n) for n in range(3)]
    CLIENTS[client].produce(broker.bootstrap, topic, records, codec)
    consumed = CLIENTS[client].consume(broker.bootstrap, topic, 3)
    assert all(each.log_append_time for each in consumed)
    assert all(before <= each.timestamp_ms <= now_ms() for each in consumed)


def test_kcat_and_java_show_log_append_time(broker: Node, new_topic) -> None:
    topic = new_topic(configs={"message.timestamp.type": "LogAppendTime"})
    CLIENTS["kcat"].produce(broker.bootstrap, topic, [PlainRecord(b"k", b"v")])
    for client in ("kcat", "java"):
        (consumed,) = CLIENTS[client].consume(broker.bootstrap, topic, 1)
        assert consumed.log_append_time, client


@pytest.mark.parametrize("days", [-10, 10], ids=["too early", "too late"])
def test_a_time_out_of_bounds_is_refused(broker: Node, new_topic, days: int) -> None:
    hour = "3600000"
    bounds = {"message.timestamp.before.max.ms": hour, "message.timestamp.after.max.ms": hour}
    topic = new_topic(configs=bounds)
    record = PlainRecord(None, b"v", (), now_ms() + days * 86_400_000)
    with pytest.raises(AssertionError, match="INVALID_TIMESTAMP"):
        Confluent().produce(broker.bootstrap, topic, [record])


@pytest.mark.parametrize("topic_codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topic_with_its_own_codec_recompresses(broker: Node, new_topic, topic_codec: str) -> None:
    topic = new_topic(configs={"compression.type": topic_codec})
    sent: list[PlainRecord] = []
    for codec in CODECS:
        records = [PlainRecord(b"k", f"{codec}-{n}".encode() * 20) for n in range(5)]
        Confluent().produce(broker.bootstrap, topic, records, codec)
        sent += records
    consumed = Confluent().consume(broker.bootstrap, topic, len(sent))
    assert [each.as_sent() for each in consumed] == sent
    assert [each.offset for each in consumed] == list(range(len(sent)))
    wanted = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}[topic_codec]
    assert codecs_on_disk(broker, topic) == {wanted}


def codecs_on_disk(broker: Node, topic: str) -> set[int]:
    """The codec of every batch in the partition's first segment."""
    data = (broker.data / f"{topic}-0" / f"{0:020}.log").read_bytes()
    found: set[int] = set()
    at = 0
    while at < len(data):
        found.add(data[at + 22] & 7)
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    return found


def test_many_records_arrive_in_order_over_several_fetches(broker: Node, new_topic) -> None:
    topic = new_topic(configs={"segment.bytes": str(MEGABYTE)})
    records = [PlainRecord(None, f"{n:06}".encode() * 40) for n in range(20_000)]
    Confluent().produce(broker.bootstrap, topic, records)
    consumed = Confluent().consume(broker.bootstrap, topic, len(records))
    assert [each.value for each in consumed] == [record.value for record in records]


def test_a_consumer_starts_at_the_offset_of_a_time(broker: Node, new_topic) -> None:
    topic = new_topic()
    base = 1_650_000_000_000
    records = [PlainRecord(None, str(n).encode(), (), base + n * 1000) for n in range(100)]
    Confluent().produce(broker.bootstrap, topic, records)
    consumer = confluent_consumer(broker.bootstrap)
    try:
        at = [TopicPartition(topic, 0, base + 41_500), TopicPartition(topic, 0, base + 200_000)]
        assert [consumer.offsets_for_times([each], 10)[0].offset for each in at] == [42, -1]
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), 10) == (0, 100)
    finally:
        consumer.close()


def test_a_tail_waits_for_the_next_record(broker: Node, new_topic) -> None:
    topic = new_topic()
    CLIENTS["kcat"].produce(broker.bootstrap, topic, [PlainRecord(b"old", b"old")])
    command = ["kcat", "-b", broker.bootstrap, "-C", "-t", topic, "-o", "0", "-c", "2", "-u", "-q"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as tail:
        assert tail.stdout is not None
        # Its first line proves that it reads; only then is the next record written.
        assert tail.stdout.readline() == "old\n"
        CLIENTS["kcat"].produce(broker.bootstrap, topic, [PlainRecord(b"new", b"new")])
        assert tail.stdout.readline() == "new\n"
        assert tail.wait(20) == 0


def test_kcat_lists_the_broker_and_its_topics(broker: Node, new_topic) -> None:
    topic = new_topic(partitions=3)
    listing = run_kcat(broker.bootstrap, "-L")
    assert f"broker 1 at {broker.bootstrap} (controller)" in listing
    assert f'topic "{topic}" with 3 partitions' in listing
