"""Acknowledgements, idempotence and topics that are created by being written to."""

import asyncio

import aiokafka
import confluent_kafka
import kafka
import pytest
from clients import Confluent, run_kcat
from processes import Node
from waiting import eventually

ACKS = ["0", "1", "all"]


def values(broker: Node, topic: str, count: int) -> list[bytes | None]:
    return [each.value for each in Confluent().consume(broker.bootstrap, topic, count)]


NUMBERS = [str(n).encode() for n in range(50)]


@pytest.mark.parametrize("acks", ACKS)
def test_confluent_with_acks(broker: Node, new_topic, acks: str) -> None:
    topic = new_topic()
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "acks": acks})
    for value in NUMBERS:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0
    assert values(broker, topic, len(NUMBERS)) == NUMBERS


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_kafka_python_with_acks(broker: Node, new_topic, acks: int | str) -> None:
    topic = new_topic()
    # Its idempotence, on by default, wants acks=all.
    producer = kafka.KafkaProducer(
        bootstrap_servers=broker.bootstrap, acks=acks, enable_idempotence=acks == "all"
    )
    offsets = [producer.send(topic, value, partition=0) for value in NUMBERS]
    producer.flush(30)
    if acks != 0:
        assert [each.get(30).offset for each in offsets] == list(range(len(NUMBERS)))
    producer.close()
    assert values(broker, topic, len(NUMBERS)) == NUMBERS


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_aiokafka_with_acks(broker: Node, new_topic, acks: int | str) -> None:
    topic = new_topic()

    async def send() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap, acks=acks)
        await producer.start()
        for value in NUMBERS:
            await producer.send_and_wait(topic, value, partition=0)
        await producer.stop()

    asyncio.run(send())
    assert values(broker, topic, len(NUMBERS)) == NUMBERS


@pytest.mark.parametrize("acks", ["0", "1", "-1"])
def test_kcat_with_acks(broker: Node, new_topic, acks: str) -> None:
    topic = new_topic()
    lines = "".join(f"{value.decode()}\n" for value in NUMBERS)
    run_kcat(broker.bootstrap, "-P", "-t", topic, "-p", "0", "-X", f"acks={acks}", stdin=lines)
    assert values(broker, topic, len(NUMBERS)) == NUMBERS


def test_idempotent_producers_of_every_library(broker: Node, new_topic) -> None:
    topic = new_topic()
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True}
    )
    for value in NUMBERS:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0

    async def send() -> None:
        other = aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap, enable_idempotence=True
        )
        await other.start()
        await asyncio.gather(*[await other.send(topic, v, partition=0) for v in NUMBERS])
        await other.stop()

    asyncio.run(send())
    third = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap, enable_idempotence=True)
    for value in NUMBERS:
        third.send(topic, value, partition=0)
    third.close()
    assert values(broker, topic, 150) == NUMBERS * 3


def test_an_idempotent_producer_sends_more_batches_than_the_broker_remembers(
    broker: Node, new_topic
) -> None:
    topic = new_topic()
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 0}
    )
    for value in NUMBERS:
        producer.produce(topic, value, partition=0)
        assert producer.flush(30) == 0
    assert values(broker, topic, len(NUMBERS)) == NUMBERS


@pytest.mark.parametrize("library", ["confluent-kafka", "kafka-python", "kcat"])
def test_writing_to_an_unknown_topic_creates_it(broker: Node, library: str) -> None:
    topic = f"created-by-{library}"
    match library:
        case "confluent-kafka":
            producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
            producer.produce(topic, b"v")
            assert producer.flush(30) == 0
        case "kafka-python":
            other = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap)
            other.send(topic, b"v").get(30)
            other.close()
        case "kcat":
            run_kcat(broker.bootstrap, "-P", "-t", topic, stdin="v\n")
    assert values(broker, topic, 1) == [b"v"]


def test_reading_metadata_without_leave_creates_nothing(broker: Node, admin) -> None:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none"})
    metadata = consumer.list_topics("nobody-made-this", 10)
    consumer.close()
    error = metadata.topics["nobody-made-this"].error
    assert error.code() == confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART
    assert "nobody-made-this" not in admin.list_topics(timeout=10).topics


def test_a_topic_with_an_impossible_name_is_not_created(broker: Node) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap, "message.timeout.ms": 20_000}
    )
    errors: list[object] = []
    producer.produce("no/such name", b"v", on_delivery=lambda error, _: errors.append(error.code()))
    eventually(
        lambda: producer.poll(0.01) >= 0 and errors, within_s=30, because="the send was refused"
    )
    assert errors == [confluent_kafka.KafkaError.TOPIC_EXCEPTION]
