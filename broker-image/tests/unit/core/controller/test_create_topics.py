import pytest
from played_cluster import PlayedCluster, topic

from pykraft.core.controller.image import TOPIC
from pykraft.ids import UNASSIGNED_DIR
from pykraft.protocol.errors import ErrorCode
from pykraft.protocol.metadata_records import PartitionRecord


def refusal(cluster: PlayedCluster, **wish: object) -> tuple[ErrorCode, str]:
    (reply,) = cluster.create(topic("t", **wish))  # type: ignore[arg-type]
    assert reply["num_partitions"] == -1
    assert reply["configs"] == []
    return reply["error_code"], reply["error_message"]


def test_a_topic_has_the_partitions_asked_for_and_an_id() -> None:
    cluster = PlayedCluster().with_brokers(1)
    (reply,) = cluster.create(topic("t", 3))
    assert reply["error_code"] == ErrorCode.NONE
    assert (reply["num_partitions"], reply["replication_factor"]) == (3, 1)
    assert cluster.image.topics_by_id[reply["topic_id"]].name == "t"
    assert list(cluster.image.topics["t"].partitions) == [0, 1, 2]


def test_minus_one_takes_the_brokers_defaults() -> None:
    cluster = PlayedCluster(num_partitions=4, default_replication_factor=2).with_brokers(1, 2)
    (reply,) = cluster.create(topic("t", -1, -1))
    assert (reply["num_partitions"], reply["replication_factor"]) == (4, 2)


def test_the_answer_tells_the_configs_and_where_they_come_from() -> None:
    cluster = PlayedCluster().with_brokers(1)
    (reply,) = cluster.create(topic("t", configs={"retention.ms": "1000"}))
    sources = {each["name"]: (each["value"], each["config_source"]) for each in reply["configs"]}
    assert sources["retention.ms"] == ("1000", 1)
    assert sources["min.insync.replicas"] == ("1", 3)
    assert sources["segment.bytes"] == ("1073741824", 5)
    assert cluster.image.configs[TOPIC, "t"] == {"retention.ms": "1000"}


def test_validate_only_answers_in_full_and_creates_nothing() -> None:
    cluster = PlayedCluster().with_brokers(1)
    (reply,) = cluster.create(topic("t", 3), validate_only=True)
    assert (reply["error_code"], reply["num_partitions"]) == (ErrorCode.NONE, 3)
    assert cluster.image.topics == {}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "Topic name is invalid: the empty string is not allowed"),
        (".", "Topic name is invalid: '.' is not allowed"),
        ("a b", "contains one or more characters other than ASCII alphanumerics"),
        ("x" * 250, "is longer than the max allowed length 249"),
    ],
)
def test_a_name_that_kafka_refuses_is_refused(name: str, message: str) -> None:
    (reply,) = PlayedCluster().with_brokers(1).create(topic(name))
    assert reply["error_code"] == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert message in reply["error_message"]


def test_the_metadata_log_cannot_be_created_as_a_topic() -> None:
    (reply,) = PlayedCluster().with_brokers(1).create(topic("__cluster_metadata"))
    assert reply["error_code"] == ErrorCode.INVALID_REQUEST


def test_a_name_given_twice_fails_and_the_others_succeed() -> None:
    cluster = PlayedCluster().with_brokers(1)
    replies = cluster.create(topic("d"), topic("d"), topic("e"))
    codes = {reply["name"]: reply["error_code"] for reply in replies}
    assert codes == {"e": ErrorCode.NONE, "d": ErrorCode.INVALID_REQUEST}
    assert len(replies) == 2
    assert list(cluster.image.topics) == ["e"]


def test_names_that_differ_in_dot_and_underscore_collide() -> None:
    cluster = PlayedCluster().with_brokers(1)
    cluster.create(topic("a.b"))
    (reply,) = cluster.create(topic("a_b"))
    assert reply["error_code"] == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert reply["error_message"] == "Topic 'a_b' collides with existing topic: a.b"


def test_counts_that_are_not_positive_are_refused() -> None:
    cluster = PlayedCluster().with_brokers(1)
    assert refusal(cluster, partitions=0)[0] == ErrorCode.INVALID_PARTITIONS
    assert refusal(cluster, partitions=-2)[0] == ErrorCode.INVALID_PARTITIONS
    assert refusal(cluster, replicas=0)[0] == ErrorCode.INVALID_REPLICATION_FACTOR
    # Kafka looks at the replication factor first.
    assert refusal(cluster, partitions=0, replicas=0)[0] == ErrorCode.INVALID_REPLICATION_FACTOR


def test_more_replicas_than_brokers_are_refused() -> None:
    code, message = refusal(PlayedCluster().with_brokers(1), replicas=2)
    assert code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert "only 1 broker(s) are registered" in message


def test_nothing_is_created_while_all_brokers_are_fenced() -> None:
    cluster = PlayedCluster()
    cluster.start()
    cluster.register(1)
    code, message = refusal(cluster)
    assert code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert "All brokers are currently fenced" in message


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        ([(1, [1])], "partitions should be a consecutive 0-based integer sequence"),
        ([(0, [1]), (2, [1])], "partitions should be a consecutive 0-based integer sequence"),
        ([(0, [1]), (0, [1])], "Found multiple manual partition assignments for partition 0"),
        ([(0, [1, 1])], "includes the broker 1 more than once"),
        ([(0, [9])], "includes broker 9, but no such broker is registered"),
        ([(0, [])], "includes an empty replica list"),
        ([(0, [1]), (1, [1, 2])], "not consistent with previous partitions"),
        ([(0, [3])], "are fenced or in controlled shutdown"),
    ],
)
def test_an_assignment_that_cannot_be_is_refused(
    assignments: list[tuple[int, list[int]]], message: str
) -> None:
    cluster = PlayedCluster().with_brokers(1, 2)
    cluster.register(3)
    code, said = refusal(cluster, assignments=assignments)
    assert code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert message in said


def test_an_assignment_excludes_counts() -> None:
    cluster = PlayedCluster().with_brokers(1)
    wish = topic("t", assignments={0: [1]})
    (reply,) = cluster.create({**wish, "replication_factor": 1})
    assert reply["error_code"] == ErrorCode.INVALID_REQUEST
    assert "replication factor was not set to -1" in reply["error_message"]
    (reply,) = cluster.create({**wish, "num_partitions": 1})
    assert "numPartitions was not set to -1" in reply["error_message"]


def test_an_assignment_is_taken_as_it_is_with_fenced_replicas_out_of_the_isr() -> None:
    cluster = PlayedCluster().with_brokers(1, 2)
    cluster.register(3)
    cluster.create(topic("t", assignments={1: [2, 1], 0: [3, 1]}))
    assert cluster.partition("t", 0).replicas == (3, 1)
    assert (cluster.partition("t", 0).isr, cluster.partition("t", 0).leader) == ((1,), 1)
    assert cluster.partition("t", 1).isr == (2, 1)


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"nothing": "1"}, "Unknown topic config name: nothing"),
        ({"retention.ms": "abc"}, "Invalid value abc for configuration retention.ms"),
        ({"retention.ms": None}, "Null value not supported for topic configs: retention.ms"),
    ],
)
def test_a_config_that_is_wrong_is_refused(configs: dict[str, str | None], message: str) -> None:
    code, said = refusal(PlayedCluster().with_brokers(1), configs=configs)
    assert code == ErrorCode.INVALID_CONFIG
    assert message in said


def test_too_many_partitions_fail_the_whole_request() -> None:
    cluster = PlayedCluster().with_brokers(1)
    replies = cluster.create(topic("a", 9_000), topic("b", 1_001))
    assert [each["error_code"] for each in replies] == [ErrorCode.POLICY_VIOLATION] * 2
    # Ten thousand partitions and the topic are one record too many.
    (reply,) = cluster.create(topic("c", 10_000))
    assert reply["error_code"] == ErrorCode.POLICY_VIOLATION
    assert cluster.image.topics == {}


def test_a_broker_with_one_directory_needs_no_assignment_of_directories() -> None:
    cluster = PlayedCluster().with_brokers(1)
    records, _ = cluster.create_with_records(topic("t"))
    (partition,) = [each for each in records if isinstance(each, PartitionRecord)]
    assert partition.directories == cluster.image.brokers[1].log_dirs


def test_a_broker_with_two_directories_chooses_itself() -> None:
    cluster = PlayedCluster()
    cluster.start()
    cluster.register(1, log_dirs=[bytes([1] * 16), bytes([2] * 16)])
    cluster.heartbeat(1)
    cluster.create(topic("t"))
    assert cluster.partition("t").directories == (UNASSIGNED_DIR,)
