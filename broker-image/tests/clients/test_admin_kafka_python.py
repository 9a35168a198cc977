"""The same administration by kafka-python, which speaks other versions of it."""

from collections.abc import Iterator
from uuid import UUID

import kafka
import pytest
from clients import Confluent, PlainRecord
from kafka import errors
from kafka.admin import ConfigResource, KafkaAdminClient, OffsetSpec
from processes import CLUSTER_ID, Node
from waiting import eventually


@pytest.fixture(scope="module")
def client(broker: Node) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


def configs_of(client: KafkaAdminClient, kind: str, name: str) -> dict[str, dict[str, object]]:
    described = client.describe_configs(
        [ConfigResource(kind, name)], include_synonyms=True, config_filter="all"
    )
    return described[kind][name]


def test_a_topic_is_created_described_grown_and_deleted(client: KafkaAdminClient) -> None:
    client.create_topics(
        {"by-kafka-python": {"num_partitions": 2, "configs": {"retention.ms": "5000"}}},
        wait_for_metadata=True,
    )
    assert "by-kafka-python" in client.list_topics()
    (topic,) = client.describe_topics(["by-kafka-python"])
    assert [p["isr_nodes"] for p in topic["partitions"]] == [[1], [1]]
    client.create_partitions({"by-kafka-python": 4})
    eventually(
        lambda: len(client.describe_topics(["by-kafka-python"])[0]["partitions"]) == 4,
        within_s=10,
        because="the new partitions are seen",
    )
    page = client.describe_topic_partitions(["by-kafka-python"])
    assert len(page["topics"][0]["partitions"]) == 4
    client.delete_topics(["by-kafka-python"])
    eventually(
        lambda: "by-kafka-python" not in client.list_topics(),
        within_s=10,
        because="the topic is gone",
    )


def test_a_topic_is_deleted_by_its_id(client: KafkaAdminClient, new_topic) -> None:
    topic = new_topic()
    (described,) = client.describe_topics([topic])
    client.delete_topics([UUID(str(described["topic_id"]))])
    eventually(lambda: topic not in client.list_topics(), within_s=10, because="the topic is gone")


def test_errors_have_their_names(client: KafkaAdminClient, new_topic) -> None:
    with pytest.raises(errors.TopicAlreadyExistsError):
        client.create_topics([new_topic()])
    with pytest.raises(errors.InvalidReplicationFactorError):
        client.create_topics({"far": {"replication_factor": 9}})
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        client.delete_topics(["unknown"])


@pytest.mark.parametrize("incremental", [True, False])
def test_configs_are_altered_and_reset(
    client: KafkaAdminClient, new_topic, incremental: bool
) -> None:
    topic = new_topic()
    change = ConfigResource("topic", topic, {"retention.ms": "1234"})
    client.alter_configs([change], incremental=incremental)
    eventually(
        lambda: configs_of(client, "topic", topic)["retention.ms"]["value"] == "1234",
        within_s=10,
        because="the change is seen",
    )
    described = configs_of(client, "topic", topic)["retention.ms"]
    assert described["config_source"] == "DYNAMIC_TOPIC_CONFIG"
    assert described["config_type"] == "LONG"
    client.reset_configs([ConfigResource("topic", topic, ["retention.ms"])])
    eventually(
        lambda: configs_of(client, "topic", topic)["retention.ms"]["value"] == "604800000",
        within_s=10,
        because="the default is back",
    )


def test_offsets_records_and_log_dirs(broker: Node, client: KafkaAdminClient, new_topic) -> None:
    topic = new_topic()
    Confluent().produce(broker.bootstrap, topic, [PlainRecord(None, b"v" * 100)] * 10)
    partition = kafka.TopicPartition(topic, 0)
    client.delete_records({partition: 4})
    offsets = {
        spec: client.list_partition_offsets({partition: spec})[partition].offset
        for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST, OffsetSpec.EARLIEST_LOCAL)
    }
    assert list(offsets.values()) == [4, 10, 4]
    ((log_dir,),) = [each["log_dirs"] for each in client.describe_log_dirs([topic])]
    assert log_dir["log_dir"] == str(broker.data)
    ((described,),) = [each["partitions"] for each in log_dir["topics"]]
    assert described["partition_size"] > 1000
    assert log_dir["total_bytes"] > log_dir["usable_bytes"] > 0


def test_the_idempotent_producer_of_a_partition_is_described(
    broker: Node, client: KafkaAdminClient, new_topic
) -> None:
    topic = new_topic()
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap, enable_idempotence=True)
    for _ in range(3):
        producer.send(topic, b"v", partition=0).get(30)
    partition = kafka.TopicPartition(topic, 0)
    (state,) = client.describe_producers([partition])[partition].active_producers
    producer.close()
    assert (state.last_sequence, state.producer_epoch) == (2, 0)
    assert state.current_transaction_start_offset == -1


def test_the_quorum_and_the_features_are_described(client: KafkaAdminClient) -> None:
    ((quorum,),) = [each["partitions"] for each in client.describe_metadata_quorum()["topics"]]
    assert quorum["leader_id"] == 1
    assert [voter["replica_id"] for voter in quorum["current_voters"]] == [1]
    assert quorum["high_watermark"] > 0
    features = client.describe_features()
    assert features["metadata.version"]["finalized"] == (30, 30)
    assert features["kraft.version"]["finalized"] == (1, 1)


def test_resources_with_configs_are_listed(client: KafkaAdminClient, new_topic) -> None:
    topic = new_topic(configs={"retention.ms": "1"})
    resources = client.list_config_resources()
    assert topic in resources["topic"]
    assert resources["broker"] == ["1"]


def test_the_cluster_is_described(broker: Node, client: KafkaAdminClient) -> None:
    cluster = client.describe_cluster()
    assert cluster["cluster_id"] == CLUSTER_ID
    assert [(each["broker_id"], each["port"]) for each in cluster["brokers"]] == [(1, broker.port)]
