"""What a log directory must hold, written down while one broker writes and held against the next.

Each chapter is written by whichever broker runs: every codec, idempotent producers, several
segments, deleted records, deleted topics, changed configs. Nothing of a chapter may be lost.
"""

from dataclasses import dataclass, field
from itertools import zip_longest

import confluent_kafka
from batches import PlainRecord, batch_of
from clients import CODECS, Confluent, Consumed, confluent_consumer
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from differential import PRODUCE, new_producer
from processes import Node, now_ms
from raw_client import RawClient
from waiting import eventually

SEGMENT_BYTES = 1 << 20
# NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, FENCED and UNKNOWN_LEADER_EPOCH.
STARTING = (3, 6, 74, 75)
HEADERS = (("trace", b"4bf92f35"), ("nothing", None))
TOPICS = {
    "codecs": {},
    "segments": {"segment.bytes": str(SEGMENT_BYTES), "index.interval.bytes": "1000"},
    "idempotent": {"retention.ms": "-1"},
    "appended": {"message.timestamp.type": "LogAppendTime"},
    "compressed": {"compression.type": "zstd"},
    "numbered": {},
}


@dataclass(slots=True)
class Ledger:
    records: dict[tuple[str, int], list[Consumed]] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    producer_id: int = -1
    next_sequence: int = 0
    last_offset: int = -1
    chapters: int = 0

    def write_chapter(self, node: Node) -> None:
        """Let the running broker write more of everything, then note what it holds."""
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        self.chapters += 1
        if self.chapters == 1:
            new = [NewTopic(name, 1, 1, config=config) for name, config in TOPICS.items()]
            _all(admin.create_topics(new))
        self._administer(admin)
        self._produce(node)
        self._produce_numbered(node)
        self._delete_records(node, admin)
        self.note(node)

    def note(self, node: Node) -> None:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        self.records = read_everything(node, admin)
        self.topic_ids = topic_ids(admin)
        self.configs = {name: changed_configs(admin, name) for name in sorted(self.topic_ids)}

    def check(self, node: Node) -> None:
        """The running broker, which need not be the writer, serves all of it."""
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        assert topic_ids(admin) == self.topic_ids
        found = read_everything(node, admin)
        assert found.keys() == self.records.keys()
        for place, expected in self.records.items():
            assert found[place] == expected, f"{place}: {_first_difference(expected, found[place])}"
        configs = {name: changed_configs(admin, name) for name in sorted(self.topic_ids)}
        assert configs == self.configs

    def check_producers(self, node: Node) -> None:
        """The broker knows the idempotent producer of before: a repetition is recognised."""
        with RawClient(node.port) as client:
            repeated = _produce_raw(client, self.producer_id, self.next_sequence - 1)
            assert repeated == (0, self.last_offset), "the repeated batch keeps its offset"
            code, _ = _produce_raw(client, self.producer_id, self.next_sequence + 5)
            assert code == 45, "a gap in the sequence is refused"
            assert new_producer(client) > self.producer_id, "ids are never given twice"

    def _administer(self, admin: AdminClient) -> None:
        doomed, kept = f"doomed-{self.chapters}", f"kept-{self.chapters}"
        _all(admin.create_topics([NewTopic(doomed, 3, 1), NewTopic(kept, 2, 1)]))
        _alter(admin, kept, AlterConfigOpType.SET, "retention.bytes", "123456789")
        _alter(admin, kept, AlterConfigOpType.SET, "flush.ms", "5000")
        _alter(admin, kept, AlterConfigOpType.DELETE, "flush.ms", None)
        _all(admin.create_partitions([NewPartitions(kept, 4)]))
        _all(admin.delete_topics([doomed]))

    def _produce(self, node: Node) -> None:
        for codec in CODECS:
            Confluent().produce(node.bootstrap, "codecs", _sample(self.chapters, codec), codec)
            Confluent().produce(node.bootstrap, "compressed", _sample(self.chapters, codec), codec)
            Confluent().produce(node.bootstrap, "appended", _sample(self.chapters, codec), codec)
        Confluent().produce(node.bootstrap, f"kept-{self.chapters}", [PlainRecord(b"k", b"v")])
        big = [PlainRecord(None, bytes([n % 251]) * 1000) for n in range(2500)]
        Confluent().produce(node.bootstrap, "segments", big)
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": node.bootstrap, "enable.idempotence": True, "linger.ms": 0}
        )
        for number in range(60):
            producer.produce("idempotent", f"{self.chapters}-{number}".encode(), partition=0)
            producer.flush(30)

    def _produce_numbered(self, node: Node) -> None:
        with RawClient(node.port) as client:
            if self.producer_id < 0:
                self.producer_id = new_producer(client)
            for _ in range(7):
                code, offset = _produce_raw(client, self.producer_id, self.next_sequence)
                assert code == 0
                self.last_offset = offset
                self.next_sequence += 1

    def _delete_records(self, node: Node, admin: AdminClient) -> None:
        # In the middle of a batch, and by the second chapter beyond whole segments.
        before = self.chapters * 900 + 7
        _all(admin.delete_records([TopicPartition("segments", 0, before)]))
        # A start offset lasts over a SIGKILL only from its next checkpoint on, in Kafka as here.
        checkpoint = node.data / "log-start-offset-checkpoint"
        eventually(
            lambda: f"segments 0 {before}\n" in checkpoint.read_text(),
            within_s=20,
            because="the new start is checkpointed",
        )


def read_everything(node: Node, admin: AdminClient) -> dict[tuple[str, int], list[Consumed]]:
    topics = {
        name: topic
        for name, topic in admin.list_topics(timeout=20).topics.items()
        if not name.startswith("__")
    }
    places = [TopicPartition(n, p, 0) for n, topic in topics.items() for p in topic.partitions]
    starts = _offsets(admin, places, OffsetSpec.earliest())
    ends = _offsets(admin, places, OffsetSpec.latest())
    found: dict[tuple[str, int], list[Consumed]] = {
        (place.topic, place.partition): [] for place in places
    }
    consumer = confluent_consumer(node.bootstrap)
    consumer.assign([TopicPartition(n, p, starts[n, p]) for n, p in found])
    missing = sum(ends[place] - starts[place] for place in found)
    while missing:
        messages = consumer.consume(missing, timeout=30)
        assert messages, f"{missing} records do not come"
        for message in messages:
            assert message.error() is None, message.error()
            found[message.topic(), message.partition()].append(Confluent.consumed(message))
        missing -= len(messages)
    consumer.close()
    return found


def _first_difference(expected: list[Consumed], found: list[Consumed]) -> str:
    """Two thousand records side by side would hide the one that matters."""
    pairs = zip_longest(expected, found)
    at, (theirs, ours) = next((n, pair) for n, pair in enumerate(pairs) if pair[0] != pair[1])
    return f"{len(expected)} written, {len(found)} found; at {at}: {theirs} became {ours}"


def _offsets(
    admin: AdminClient, places: list[TopicPartition], spec: OffsetSpec
) -> dict[tuple[str, int], int]:
    def led() -> dict[tuple[str, int], int]:
        answers = admin.list_offsets(dict.fromkeys(places, spec))
        try:
            return {(p.topic, p.partition): e.result(30).offset for p, e in answers.items()}
        except confluent_kafka.KafkaException as error:
            # A Kafka that has just started shows a leader's epoch before it serves it.
            if error.args[0].code() not in STARTING:
                raise
            return {}

    return eventually(led, within_s=30, because="every partition is led")


def topic_ids(admin: AdminClient) -> dict[str, str]:
    names = [n for n in admin.list_topics(timeout=20).topics if not n.startswith("__")]
    answers = admin.describe_topics(confluent_kafka.TopicCollection(names))
    return {name: str(each.result(30).topic_id) for name, each in answers.items()}


def changed_configs(admin: AdminClient, topic: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    described = admin.describe_configs([resource])[resource].result(30)
    return {name: each.value for name, each in described.items() if not each.is_default}


def _sample(chapter: int, codec: str) -> list[PlainRecord]:
    return [
        PlainRecord(
            None if n % 3 == 0 else f"key-{n}".encode(),
            None if n % 3 == 1 else f"chapter {chapter}, {codec}, {n} ".encode() * 20,
            HEADERS,
            1_700_000_000_000 + chapter * 1_000_000 + n * 500,
        )
        for n in range(30)
    ]


def _alter(
    admin: AdminClient, topic: str, operation: AlterConfigOpType, key: str, value: str | None
) -> None:
    entry = ConfigEntry(key, value, incremental_operation=operation)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    _all(admin.incremental_alter_configs([resource]))


def _all(futures: dict[object, object]) -> None:
    for each in futures.values():
        each.result(30)  # type: ignore[attr-defined]


def _produce_raw(client: RawClient, producer_id: int, sequence: int) -> tuple[int, int]:
    identity = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
    # Of today, because a producer is forgotten a day after the time of its last batch.
    batch = batch_of(b"%d" % sequence, **identity, timestamp_ms=now_ms()).encode()
    data = [{"name": "numbered", "partition_data": [{"index": 0, "records": batch}]}]
    answer = client.ask(PRODUCE, 9, acks=-1, timeout=10_000, topic_data=data)
    (only,) = answer["responses"][0]["partition_responses"]
    return only["error_code"], only["base_offset"]
