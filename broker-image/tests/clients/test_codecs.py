"""Every client's records, in every codec, are read alike by every client."""

import pytest
from batches import PlainRecord
from clients import CLIENTS, CODECS, Consumed
from processes import Node

HEADERS = (("trace", b"4bf92f35"), ("nothing", None))
# kafka-python refuses to send a header without a value, though it reads one.
HEADERS_OF = {"kafka-python": (("trace", b"4bf92f35"), ("empty", b""))}


def sample(producer: str, codec: str) -> list[PlainRecord]:
    """A null key, a null value or neither (aiokafka refuses both); alike, so that codecs work."""
    return [
        PlainRecord(
            None if number % 3 == 0 else f"key-{number}".encode(),
            None if number % 3 == 1 else f"{producer} with {codec} says {number} ".encode() * 8,
            HEADERS_OF.get(producer, HEADERS),
        )
        for number in range(1, 21)
    ]


@pytest.fixture(scope="module")
def written(broker: Node, new_topic) -> dict[str, tuple[str, list[PlainRecord]]]:
    """For each codec a topic that every client has written to, one after the other."""
    topics = {codec: new_topic() for codec in CODECS}
    sent: dict[str, list[PlainRecord]] = {codec: [] for codec in CODECS}
    for codec in CODECS:
        for producer in CLIENTS.values():
            records = sample(producer.name, codec)
            producer.produce(broker.bootstrap, topics[codec], records, codec)
            sent[codec] += records
    return {codec: (topics[codec], sent[codec]) for codec in CODECS}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("consumer", CLIENTS)
def test_a_consumer_reads_what_every_producer_sent(
    broker: Node, written: dict[str, tuple[str, list[PlainRecord]]], consumer: str, codec: str
) -> None:
    topic, sent = written[codec]
    consumed = CLIENTS[consumer].consume(broker.bootstrap, topic, len(sent))
    assert [record.as_sent() for record in consumed] == sent
    assert [record.offset for record in consumed] == list(range(len(sent)))
    assert all(not record.log_append_time for record in consumed)
    assert times_are_plausible(consumed)


def times_are_plausible(consumed: list[Consumed]) -> bool:
    return all(record.timestamp_ms > 1_700_000_000_000 for record in consumed)
