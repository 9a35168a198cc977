"""librdkafka through confluent-kafka, with its defaults: a client as people use it."""

import time

from confluent_kafka import Consumer, Producer, TopicPartition

CONSUME_AT_ONCE = 10_000
QUIET_SECONDS_MAX = 10


def produce(port: int, topic: str, value_bytes: int, *, seconds: float) -> tuple[int, float]:
    """Records acknowledged, and the seconds until the last of them was."""
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{port}", "acks": "all"})
    value = bytes(value_bytes)
    records = 0
    begin = time.perf_counter()
    deadline = begin + seconds
    while time.perf_counter() < deadline:
        try:
            producer.produce(topic, value)
        except BufferError:
            producer.poll(0.01)
        else:
            records += 1
    left = producer.flush(30)
    assert left == 0, f"{left} records were not acknowledged"
    return records, time.perf_counter() - begin


def consume(port: int, topic: str, end: int, *, seconds: float) -> tuple[int, float]:
    """Records read from partition 0, again from its start after `end`, and the seconds it took."""
    settings = {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "group.id": "bench",
        "enable.auto.commit": False,
    }
    consumer = Consumer(settings)
    begin = time.perf_counter()
    deadline = begin + seconds
    total = at = 0
    consumer.assign([TopicPartition(topic, 0, 0)])
    while time.perf_counter() < deadline:
        messages = consumer.consume(CONSUME_AT_ONCE, QUIET_SECONDS_MAX)
        assert messages, f"nothing came for {QUIET_SECONDS_MAX} s"
        broken = [each.error() for each in messages if each.error()]
        assert not broken, f"the consumer reports {broken[0]}"
        total += len(messages)
        at = messages[-1].offset() + 1
        if at >= end:
            consumer.seek(TopicPartition(topic, 0, 0))
    taken = time.perf_counter() - begin
    consumer.close()
    return total, taken
