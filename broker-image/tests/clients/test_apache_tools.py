"""Apache Kafka's own command-line tools, which are Java clients of the newest versions.

Each start of a JVM costs a second, so that each test drives a tool through a whole story.
"""

import json
import re
import time

from apache import run_tool
from clients import Confluent, PlainRecord
from processes import Node
from waiting import eventually

TOOLS = "org.apache.kafka.tools"


def topics(broker: Node, *arguments: str, may_fail: bool = False) -> str:
    place = ("--bootstrap-server", broker.bootstrap)
    return run_tool(f"{TOOLS}.TopicCommand", *place, *arguments, may_fail=may_fail)


def configs(broker: Node, *arguments: str) -> str:
    return run_tool("kafka.admin.ConfigCommand", "--bootstrap-server", broker.bootstrap, *arguments)


def offsets(broker: Node, topic: str, when: str) -> list[str]:
    place = ("--bootstrap-server", broker.bootstrap, "--topic", topic)
    return run_tool(f"{TOOLS}.GetOffsetShell", *place, "--time", when).split()


def test_kafka_topics_creates_describes_alters_lists_and_deletes(broker: Node) -> None:
    made = topics(broker, "--create", "--topic", "tooled", "--partitions", "3",
                  "--replication-factor", "1", "--config", "retention.ms=7000")  # fmt: skip
    assert "Created topic tooled." in made
    topics(broker, "--alter", "--topic", "tooled", "--partitions", "5")
    described = topics(broker, "--describe", "--topic", "tooled")
    assert re.search(
        r"Topic: tooled\tTopicId: \S{22}\tPartitionCount: 5\tReplicationFactor: 1\tConfigs: .*"
        r"retention\.ms=7000",
        described,
    )
    for partition in range(5):
        line = f"Topic: tooled\tPartition: {partition}\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \t"
        assert line in described
    assert "tooled" in topics(broker, "--list").split()
    topics(broker, "--delete", "--topic", "tooled")
    assert "tooled" not in topics(broker, "--list").split()


def test_kafka_topics_says_why_not(broker: Node, new_topic) -> None:
    topic = new_topic(partitions=2)
    again = topics(broker, "--create", "--topic", topic, may_fail=True)
    assert "TopicExistsException" in again
    fewer = topics(broker, "--alter", "--topic", topic, "--partitions", "1", may_fail=True)
    assert "InvalidPartitionsException" in fewer


def test_kafka_configs_of_a_topic(broker: Node, new_topic) -> None:
    topic = new_topic()
    entity = ("--entity-type", "topics", "--entity-name", topic)
    configs(broker, "--alter", *entity, "--add-config", "segment.bytes=2000000,flush.ms=9000")
    described = configs(broker, "--describe", *entity)
    assert "segment.bytes=2000000 sensitive=false" in described
    assert "flush.ms=9000 sensitive=false" in described
    assert "DEFAULT_CONFIG:log.segment.bytes=1073741824" in described
    configs(broker, "--alter", *entity, "--delete-config", "segment.bytes")
    every = configs(broker, "--describe", "--all", *entity)
    assert "segment.bytes=1073741824 sensitive=false" in every
    assert "max.message.bytes=1048588" in every


def test_kafka_configs_of_brokers(broker: Node) -> None:
    one = ("--entity-type", "brokers", "--entity-name", "1")
    default = ("--entity-type", "brokers", "--entity-default")
    configs(broker, "--alter", *default, "--add-config", "log.flush.interval.ms=777777")
    configs(broker, "--alter", *one, "--add-config", "log.cleaner.backoff.ms=16000")
    assert "log.flush.interval.ms=777777" in configs(broker, "--describe", *default)
    every = configs(broker, "--describe", "--all", *one)
    assert "DYNAMIC_DEFAULT_BROKER_CONFIG:log.flush.interval.ms=777777" in every
    assert "DYNAMIC_BROKER_CONFIG:log.cleaner.backoff.ms=16000" in every
    assert "STATIC_BROKER_CONFIG:node.id=1" in every
    configs(broker, "--alter", *default, "--delete-config", "log.flush.interval.ms")
    configs(broker, "--alter", *one, "--delete-config", "log.cleaner.backoff.ms")
    assert "log.cleaner.backoff.ms" not in configs(broker, "--describe", *one)


def test_kafka_get_offsets_and_delete_records(broker: Node, new_topic, tmp_path) -> None:
    topic = new_topic(partitions=2)
    times = [1_600_000_000_000, 1_600_000_009_000, 1_600_000_001_000, 1_600_000_002_000]
    records = [PlainRecord(None, b"v", (), each) for each in times]
    Confluent().produce(broker.bootstrap, topic, records)
    assert offsets(broker, topic, "latest") == [f"{topic}:0:4", f"{topic}:1:0"]
    assert offsets(broker, topic, "max-timestamp") == [f"{topic}:0:1"]
    assert offsets(broker, topic, str(times[0] + 1)) == [f"{topic}:0:1"]

    wanted = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 2}]}
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps(wanted))
    place = ("--bootstrap-server", broker.bootstrap, "--offset-json-file", str(file))
    deleted = run_tool(f"{TOOLS}.DeleteRecordsCommand", *place)
    assert f"partition: {topic}-0\tlow_watermark: 2" in deleted
    assert offsets(broker, topic, "earliest") == [f"{topic}:0:2", f"{topic}:1:0"]


def test_kafka_log_dirs_knows_the_size(broker: Node, new_topic) -> None:
    topic = new_topic()
    Confluent().produce(broker.bootstrap, topic, [PlainRecord(None, b"v" * 1000)])
    place = ("--bootstrap-server", broker.bootstrap, "--describe", "--topic-list", topic)
    printed = run_tool(f"{TOOLS}.LogDirsCommand", *place).splitlines()[-1]
    (described,) = json.loads(printed)["brokers"]
    (log_dir,) = described["logDirs"]
    segment = broker.data / f"{topic}-0" / f"{0:020}.log"
    size = segment.stat().st_size
    assert log_dir["logDir"] == str(broker.data)
    assert log_dir["error"] is None
    assert log_dir["partitions"] == [
        {"partition": f"{topic}-0", "size": size, "offsetLag": 0, "isFuture": False}
    ]


def test_broker_api_versions_shows_what_is_served(broker: Node) -> None:
    place = ("--bootstrap-server", broker.bootstrap)
    shown = run_tool(f"{TOOLS}.BrokerApiVersionsCommand", *place)
    assert f"{broker.bootstrap} (id: 1 rack: null isFenced: false)" in shown
    served = {
        "Produce(0): 0 to 13 [usable: 13]",
        "Fetch(1): 4 to 18 [usable: 18]",
        "ListOffsets(2): 1 to 11 [usable: 11]",
        "Metadata(3): 0 to 13 [usable: 13]",
        "ApiVersions(18): 0 to 4 [usable: 4]",
        "CreateTopics(19): 2 to 7 [usable: 7]",
        "DeleteTopics(20): 1 to 6 [usable: 6]",
        "DeleteRecords(21): 0 to 2 [usable: 2]",
        "InitProducerId(22): 0 to 5 [usable: 5]",
        "OffsetForLeaderEpoch(23): 2 to 4 [usable: 4]",
        "DescribeConfigs(32): 1 to 4 [usable: 4]",
        "AlterConfigs(33): 0 to 2 [usable: 2]",
        "DescribeLogDirs(35): 1 to 5 [usable: 5]",
        "CreatePartitions(37): 0 to 3 [usable: 3]",
        "IncrementalAlterConfigs(44): 0 to 1 [usable: 1]",
        "DescribeQuorum(55): 0 to 2 [usable: 2]",
        "UpdateFeatures(57): 0 to 2 [usable: 2]",
        "DescribeCluster(60): 0 to 2 [usable: 2]",
        "DescribeProducers(61): 0 [usable: 0]",
        "ListConfigResources(74): 0 to 1 [usable: 1]",
        "DescribeTopicPartitions(75): 0 [usable: 0]",
    }
    missing = {line for line in served if line not in shown}
    assert not missing


def test_the_quorum_and_the_features_are_shown(broker: Node) -> None:
    place = ("--bootstrap-server", broker.bootstrap)
    status = run_tool(f"{TOOLS}.MetadataQuorumCommand", *place, "describe", "--status")
    assert re.search(r"LeaderId: +1\n", status)
    assert '"id": 1' in status
    features = run_tool(f"{TOOLS}.FeatureCommand", *place, "describe")
    assert re.search(r"metadata\.version .*FinalizedVersionLevel: 4\.3-IV0", features)


def test_the_verifiable_producer_is_acknowledged_in_order(broker: Node, new_topic) -> None:
    topic = new_topic()
    place = ("--bootstrap-server", broker.bootstrap, "--topic", topic)
    lines = run_tool(f"{TOOLS}.VerifiableProducer", *place, "--max-messages", "500", "--acks", "-1")
    said = [json.loads(line) for line in lines.splitlines()]
    acknowledged = [each for each in said if each["name"] == "producer_send_success"]
    assert [(each["offset"], each["value"]) for each in acknowledged] == [
        (n, str(n)) for n in range(500)
    ]
    assert said[-1]["acked"] == 500
    consumed = Confluent().consume(broker.bootstrap, topic, 500)
    assert [each.value for each in consumed] == [b"%d" % n for n in range(500)]


def test_producer_performance_writes_all_its_records(broker: Node, new_topic) -> None:
    topic = new_topic()
    settings = (f"bootstrap.servers={broker.bootstrap}", "acks=all", "compression.type=lz4")
    count = ("--num-records", "20000", "--record-size", "100", "--throughput", "-1")
    printed = run_tool(f"{TOOLS}.ProducerPerformance", "--topic", topic, *count,
                       "--command-property", *settings)  # fmt: skip
    assert "20000 records sent" in printed
    eventually(
        lambda: offsets(broker, topic, "latest") == [f"{topic}:0:20000"],
        within_s=20,
        because="every record is in the log",
    )


def test_the_console_consumer_starts_at_an_offset(broker: Node, new_topic) -> None:
    topic = new_topic(partitions=2)
    Confluent().produce(broker.bootstrap, topic, [PlainRecord(None, b"%d" % n) for n in range(9)])
    place = ("--bootstrap-server", broker.bootstrap, "--topic", topic, "--partition", "0")
    started = time.monotonic()
    printed = run_tool(
        f"{TOOLS}.consumer.ConsoleConsumer", *place, "--offset", "6", "--max-messages", "3"
    )
    assert printed.split() == ["6", "7", "8"]
    assert time.monotonic() - started < 10
