"""Topics, configs, offsets and records, administered by librdkafka."""

import confluent_kafka
import pytest
from clients import Confluent, PlainRecord
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from processes import Node
from waiting import eventually

Error = confluent_kafka.KafkaError


def refusal(future) -> int:
    """The code with which an operation was refused."""
    error = future.exception(30)
    assert error is not None, "it was accepted"
    return error.args[0].code()


def describe(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    resource = ConfigResource(kind, name)
    return admin.describe_configs([resource])[resource].result(30)


def alter(
    admin: AdminClient, kind: ResourceType, name: str, operation: AlterConfigOpType, **config: str
):
    entries = [
        ConfigEntry(key.replace("_", "."), value, incremental_operation=operation)
        for key, value in config.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    return admin.incremental_alter_configs([resource])[resource]


def test_a_topic_is_created_grown_and_deleted(admin: AdminClient) -> None:
    admin.create_topics([NewTopic("life", 2, 1)])["life"].result(30)
    assert len(admin.list_topics("life", 10).topics["life"].partitions) == 2
    admin.create_partitions([NewPartitions("life", 5)])["life"].result(30)
    eventually(
        lambda: len(admin.list_topics("life", 10).topics["life"].partitions) == 5,
        within_s=10,
        because="the new partitions are seen",
    )
    admin.delete_topics(["life"])["life"].result(30)
    eventually(
        lambda: "life" not in admin.list_topics(timeout=10).topics,
        within_s=10,
        because="the topic is gone",
    )


def test_a_topic_can_be_created_again_after_its_deletion(broker: Node, admin: AdminClient) -> None:
    for round_number in range(3):
        admin.create_topics([NewTopic("again", 1, 1)])["again"].result(30)
        value = f"round {round_number}".encode()
        Confluent().produce(broker.bootstrap, "again", [PlainRecord(None, value)])
        (consumed,) = Confluent().consume(broker.bootstrap, "again", 1)
        assert (consumed.offset, consumed.value) == (0, value)
        admin.delete_topics(["again"])["again"].result(30)


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (NewTopic("bad name", 1, 1), Error.TOPIC_EXCEPTION),
        (NewTopic("..", 1, 1), Error.TOPIC_EXCEPTION),
        (NewTopic("x" * 250, 1, 1), Error.TOPIC_EXCEPTION),
        (NewTopic("none", 0, 1), Error.INVALID_PARTITIONS),
        (NewTopic("far", 1, 3), Error.INVALID_REPLICATION_FACTOR),
        (NewTopic("odd", 1, 1, config={"retention.ms": "long"}), Error.INVALID_CONFIG),
        (NewTopic("odd", 1, 1, config={"no.such.config": "1"}), Error.INVALID_CONFIG),
        (NewTopic("odd", 2, replica_assignment=[[1], [7]]), Error.INVALID_REPLICA_ASSIGNMENT),
    ],
    ids=lambda value: value.topic[:8] if isinstance(value, NewTopic) else "",
)
def test_a_topic_that_cannot_be_is_refused(admin: AdminClient, topic: NewTopic, code: int) -> None:
    assert refusal(admin.create_topics([topic])[topic.topic]) == code
    assert topic.topic not in admin.list_topics(timeout=10).topics


def test_what_exists_or_not_is_said(admin: AdminClient, new_topic) -> None:
    topic = new_topic(partitions=2)
    again = admin.create_topics([NewTopic(topic, 1, 1)])[topic]
    assert refusal(again) == Error.TOPIC_ALREADY_EXISTS
    fewer = admin.create_partitions([NewPartitions(topic, 1)])[topic]
    assert refusal(fewer) == Error.INVALID_PARTITIONS
    unknown = admin.create_partitions([NewPartitions("unknown", 4)])["unknown"]
    assert refusal(unknown) == Error.UNKNOWN_TOPIC_OR_PART
    assert refusal(admin.delete_topics(["unknown"])["unknown"]) == Error.UNKNOWN_TOPIC_OR_PART


def test_validate_only_creates_nothing(admin: AdminClient) -> None:
    admin.create_topics([NewTopic("only", 1, 1)], validate_only=True)["only"].result(30)
    assert "only" not in admin.list_topics(timeout=10).topics


def test_a_topics_configs_are_described_and_altered(admin: AdminClient, new_topic) -> None:
    topic = new_topic(configs={"retention.ms": "1000", "cleanup.policy": "compact,delete"})
    configs = describe(admin, ResourceType.TOPIC, topic)
    assert configs["retention.ms"].value == "1000"
    assert configs["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert configs["cleanup.policy"].value == "compact,delete"
    assert configs["segment.bytes"].value == "1073741824"
    assert configs["segment.bytes"].is_default
    synonyms = configs["retention.ms"].synonyms
    assert list(synonyms) == ["retention.ms"]

    set_, delete = AlterConfigOpType.SET, AlterConfigOpType.DELETE
    alter(admin, ResourceType.TOPIC, topic, set_, segment_bytes="2000000").result(30)
    alter(admin, ResourceType.TOPIC, topic, delete, retention_ms="").result(30)
    append, subtract = AlterConfigOpType.APPEND, AlterConfigOpType.SUBTRACT
    alter(admin, ResourceType.TOPIC, topic, subtract, cleanup_policy="compact").result(30)
    configs = describe(admin, ResourceType.TOPIC, topic)
    assert configs["segment.bytes"].value == "2000000"
    assert configs["retention.ms"].value == "604800000"
    assert configs["cleanup.policy"].value == "delete"
    alter(admin, ResourceType.TOPIC, topic, append, cleanup_policy="compact").result(30)
    assert describe(admin, ResourceType.TOPIC, topic)["cleanup.policy"].value == "delete,compact"


def test_bad_configs_are_refused_and_change_nothing(admin: AdminClient, new_topic) -> None:
    topic = new_topic()
    set_ = AlterConfigOpType.SET
    for bad in ({"retention_ms": "soon"}, {"segment_bytes": "1"}, {"no_such_thing": "1"}):
        assert refusal(alter(admin, ResourceType.TOPIC, topic, set_, **bad)) == Error.INVALID_CONFIG
    unknown = alter(admin, ResourceType.TOPIC, "unknown", set_, retention_ms="1")
    assert refusal(unknown) == Error.UNKNOWN_TOPIC_OR_PART
    assert describe(admin, ResourceType.TOPIC, topic)["retention.ms"].value == "604800000"


def test_a_brokers_configs_are_described_and_altered(admin: AdminClient, new_topic) -> None:
    topic = new_topic()
    set_, delete = AlterConfigOpType.SET, AlterConfigOpType.DELETE
    before = describe(admin, ResourceType.BROKER, "1")
    assert before["node.id"].value == "1"
    assert before["node.id"].is_read_only
    assert before["node.id"].source == ConfigSource.STATIC_BROKER_CONFIG.value
    alter(admin, ResourceType.BROKER, "1", set_, log_retention_ms="86400000").result(30)
    eventually(
        lambda: describe(admin, ResourceType.TOPIC, topic)["retention.ms"].value == "86400000",
        within_s=10,
        because="a topic follows its broker's default",
    )
    alter(admin, ResourceType.BROKER, "1", delete, log_retention_ms="").result(30)
    eventually(
        lambda: describe(admin, ResourceType.TOPIC, topic)["retention.ms"].value == "604800000",
        within_s=10,
        because="and falls back with it",
    )
    read_only = alter(admin, ResourceType.BROKER, "1", set_, node_id="2")
    assert refusal(read_only) == Error.INVALID_REQUEST


def test_offsets_are_listed_by_every_rule(broker: Node, admin: AdminClient, new_topic) -> None:
    topic = new_topic()
    times = [1_600_000_000_000, 1_600_000_005_000, 1_600_000_002_000]
    records = [PlainRecord(None, b"v", (), time) for time in times]
    Confluent().produce(broker.bootstrap, topic, records)
    partition = TopicPartition(topic, 0)

    def offset(spec: OffsetSpec) -> int:
        return admin.list_offsets({partition: spec})[partition].result(30).offset

    assert offset(OffsetSpec.earliest()) == 0
    assert offset(OffsetSpec.latest()) == 3
    assert offset(OffsetSpec.max_timestamp()) == 1
    assert offset(OffsetSpec.for_timestamp(times[0] + 1)) == 1
    assert offset(OffsetSpec.for_timestamp(times[1] + 1)) == -1


def test_deleted_records_are_no_longer_read(broker: Node, admin: AdminClient, new_topic) -> None:
    topic = new_topic()
    Confluent().produce(broker.bootstrap, topic, [PlainRecord(None, b"%d" % n) for n in range(10)])
    partition = TopicPartition(topic, 0, 6)
    deleted = admin.delete_records([partition])[partition].result(30)
    assert deleted.low_watermark == 6
    earliest = admin.list_offsets({partition: OffsetSpec.earliest()})[partition].result(30)
    assert earliest.offset == 6
    beyond = TopicPartition(topic, 0, 11)
    assert refusal(admin.delete_records([beyond])[beyond]) == Error.OFFSET_OUT_OF_RANGE


def test_the_cluster_and_its_topics_describe_themselves(
    broker: Node, admin: AdminClient, new_topic
) -> None:
    cluster = admin.describe_cluster().result(30)
    assert [(node.id, node.port) for node in cluster.nodes] == [(1, broker.port)]
    assert cluster.controller.id == 1
    topic = new_topic(partitions=3)
    collection = confluent_kafka.TopicCollection([topic])
    described = admin.describe_topics(collection)[topic].result(30)
    assert [p.id for p in described.partitions] == [0, 1, 2]
    assert {p.leader.id for p in described.partitions} == {1}
    assert [[n.id for n in p.isr] for p in described.partitions] == [[1]] * 3
