"""SIGKILL at random times: what was acknowledged is there once, in order, after every restart.

    KILLS  how many times the node is killed (5; 50 in the full run)
    SEED   what decides the times (printed, so that a failure can be repeated)

A killed process loses nothing that it wrote, because the kernel keeps the page cache; so every
acknowledgement counts here, with acks=1 as with acks=all. Power loss is the simulator's matter.
"""

import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from clients import confluent_consumer
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from processes import TARGET, Node, new_node
from waiting import eventually

KILLS = int(os.environ.get("KILLS", "5"))
SEED = int(os.environ.get("SEED", str(random.SystemRandom().randrange(1 << 32))))
# Long enough for thousands of records, short enough that fifty kills are done in minutes.
LIFE_SECONDS = (0.05, 1.0)
AT_LEAST_ACKNOWLEDGED = 50
# A few batches under way at every kill, but no flood after it.
IN_FLIGHT_MAX = 200
PACE_SECONDS = 0.004
RECORDS_AT_ONCE = 8


class Writer:
    """A thread that numbers records and sends them, over every death of the broker.

    `acknowledged` maps a number to the offset that the broker gave it.
    """

    def __init__(self, node: Node, topic: str, config: dict[str, object]) -> None:
        self.topic = topic
        self.sent = 0
        self.acknowledged: dict[int, int] = {}
        self.refused: set[int] = set()
        self._config = {
            "bootstrap.servers": node.bootstrap,
            "linger.ms": 1,
            # librdkafka would wait up to ten seconds before it tries the restarted node again.
            "reconnect.backoff.max.ms": 100,
            **config,
        }
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop sending; return when every record's fate is known."""
        self._ending.set()
        self._thread.join(90)
        assert not self._thread.is_alive(), "the producer does not finish"
        assert len(self.acknowledged) + len(self.refused) == self.sent

    def _write(self) -> None:
        producer = confluent_kafka.Producer(self._config)
        # The first goes alone: what librdkafka queues before it knows the partition may be
        # overtaken, inside the client, by what it queues after.
        self._send(producer)
        producer.flush(60)
        while not self._ending.wait(PACE_SECONDS):
            for _ in range(RECORDS_AT_ONCE if len(producer) < IN_FLIGHT_MAX else 0):
                self._send(producer)
            producer.poll(0)
        producer.flush(80)

    def _send(self, producer: confluent_kafka.Producer) -> None:
        value = str(self.sent).encode()
        producer.produce(self.topic, value, partition=0, on_delivery=self._delivered)
        self.sent += 1

    def _delivered(self, error: confluent_kafka.KafkaError | None, message: object) -> None:
        number = int(message.value())
        if error is None:
            self.acknowledged[number] = message.offset()
        else:
            self.refused.add(number)


def read_all(node: Node, topics: list[str]) -> dict[str, list[tuple[int, int]]]:
    """Offset and number of every record that each topic's partition holds now."""
    found: dict[str, list[tuple[int, int]]] = {topic: [] for topic in topics}
    consumer = confluent_consumer(node.bootstrap)
    partitions = {topic: TopicPartition(topic, 0, 0) for topic in topics}
    ends = {topic: consumer.get_watermark_offsets(partitions[topic], 30)[1] for topic in topics}
    consumer.assign(list(partitions.values()))
    deadline = time.monotonic() + 60
    while any(len(found[topic]) < ends[topic] for topic in topics):
        assert time.monotonic() < deadline, f"read {found.keys()} only in part of {ends}"
        for message in consumer.consume(10_000, 0.05):
            if message.error() is None:
                found[message.topic()].append((message.offset(), int(message.value())))
    consumer.close()
    return found


def check(acknowledged: dict[int, int], found: list[tuple[int, int]]) -> None:
    """Every acknowledged number exactly once, where the broker said, and in order."""
    offsets = [offset for offset, _ in found]
    assert offsets == list(range(len(offsets))), "offsets have no gap and none is there twice"
    numbers = [number for _, number in found]
    assert len(numbers) == len(set(numbers)), "a record is there twice"
    place = {number: offset for offset, number in found}
    lost = {n: o for n, o in acknowledged.items() if place.get(n) != o}
    assert not lost, (
        f"{len(lost)} acknowledged records are not in place: {sorted(lost.items())[:5]}"
    )
    kept = [number for number in numbers if number in acknowledged]
    assert kept == sorted(kept), "acknowledged records are out of order"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    # Small segments, so that kills also meet a roll.
    settings = {"log.segment.bytes": "1048576", "log.index.interval.bytes": "512"}
    with new_node(TARGET, tmp_path / "node", settings) as node:
        yield node.start()


@pytest.mark.timeout(60 + KILLS * 20)
def test_acknowledged_records_survive_every_kill_once_and_in_order(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    dice = random.Random(SEED)
    topics = ["acks-one", "acks-all"]
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    for created in admin.create_topics([NewTopic(topic, 1, 1) for topic in topics]).values():
        created.result(30)
    one = {"acks": "1", "retries": 0, "max.in.flight": 1}
    every = {"acks": "all", "enable.idempotence": True, "retries": 1_000_000}
    writers = [Writer(node, "acks-one", one), Writer(node, "acks-all", every)]
    with capsys.disabled():
        print(f"\nkill test: {KILLS} kills, SEED={SEED}")
    for _ in range(KILLS):
        live_and_die(node, writers, dice)
    for writer in writers:
        writer.end()
    found = read_all(node, topics)
    for writer in writers:
        check(writer.acknowledged, found[writer.topic])
    assert not writers[1].refused, "the idempotent producer was given up on"
    with capsys.disabled():
        for writer in writers:
            print(
                f"  {writer.topic}: {writer.sent} sent, {len(writer.acknowledged)} acknowledged, "
                f"{len(writer.refused)} refused, {len(found[writer.topic])} found"
            )


def live_and_die(node: Node, writers: list[Writer], dice: random.Random) -> None:
    """Let both writers get on, kill at a random time, restart, read all that was acknowledged."""
    marks = [len(writer.acknowledged) + AT_LEAST_ACKNOWLEDGED for writer in writers]
    eventually(
        lambda: all(len(w.acknowledged) >= m for w, m in zip(writers, marks, strict=True)),
        within_s=60,
        because="both writers get on after the restart",
    )
    threading.Event().wait(dice.uniform(*LIFE_SECONDS))
    node.kill()
    known = [dict(writer.acknowledged) for writer in writers]
    node.start()
    found = read_all(node, [writer.topic for writer in writers])
    for writer, acknowledged in zip(writers, known, strict=True):
        check(acknowledged, found[writer.topic])
