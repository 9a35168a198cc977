"""librdkafka through confluent-kafka, with its defaults: a client as people use it."""

import time

from confluent_kafka import Consumer, Producer, TopicPartition

CONSUME_AT_ONCE = 10_000
QUIET_SECONDS_MAX = 10


def produce(port: int, topic: str, value_bytes: int, *, seconds: float) -> int:
    """How many records were acknowledged when it returns; it takes a little longer than asked."""
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{port}", "acks": "all"})
    value = bytes(value_bytes)
    records = 0
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        try:
            producer.produce(topic, value)
        except BufferError:
            producer.poll(0.01)
        else:
            records += 1
    left = producer.flush(30)
    assert left == 0, f"{left} records were not acknowledged"
    return records


def consume(port: int, topic: str, end: int) -> None:
    """Read partition 0 from its start to `end`."""
    settings = {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "group.id": "bench",
        "enable.auto.commit": False,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    at = 0
    while at < end:
        # Never more than there is: the call returns when it has all of them.
        messages = consumer.consume(min(CONSUME_AT_ONCE, end - at), QUIET_SECONDS_MAX)
        assert messages, f"nothing came for {QUIET_SECONDS_MAX} s"
        broken = [each.error() for each in messages if each.error()]
        assert not broken, f"the consumer reports {broken[0]}"
        at += len(messages)
    consumer.close()
