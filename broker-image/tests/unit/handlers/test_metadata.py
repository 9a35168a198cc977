"""Metadata, DescribeTopicPartitions and DescribeCluster, as observed of Apache Kafka 4.3.1."""

from pathlib import Path
from typing import Any

import pytest
from asked_broker import CLUSTER_ID, NODE, AskedBroker, registration

from pykraft.handlers import metadata
from pykraft.ids import LOST_DIR, ZERO_UUID
from pykraft.protocol.decoding import Message
from pykraft.protocol.errors import ErrorCode
from pykraft.protocol.metadata_records import Endpoint, PartitionChangeRecord, PartitionRecord
from pykraft.protocol.versions import ApiKey

TOPIC_OPERATIONS = 3576
CLUSTER_OPERATIONS = 8096
NOT_ASKED = -(2**31)


def named(*names: str) -> list[dict[str, object]]:
    return [{"name": name} for name in names]


def by_id(*ids: bytes) -> list[dict[str, object]]:
    return [{"name": None, "topic_id": topic_id} for topic_id in ids]


def told(answer: Message) -> list[tuple[str | None, int]]:
    return [(topic.name, topic.error_code) for topic in answer.topics]


# Which topics


def test_null_asks_for_all_topics_and_an_empty_list_for_none(node: AskedBroker) -> None:
    node.create("a", 2)
    node.create("b")
    everything = node.ask(ApiKey.METADATA, 12, topics=None)
    assert told(everything) == [("a", 0), ("b", 0)]
    assert [len(topic.partitions) for topic in everything.topics] == [2, 1]
    assert told(node.ask(ApiKey.METADATA, 1, topics=[])) == []


def test_the_empty_list_of_version_0_asks_for_all_topics(node: AskedBroker) -> None:
    node.create("a")
    assert told(node.ask(ApiKey.METADATA, 0, topics=[])) == [("a", 0)]


def test_found_topics_come_once_and_before_the_missing(node: AskedBroker) -> None:
    node.create("a")
    node.create("z")
    answer = node.ask(
        ApiKey.METADATA,
        12,
        topics=named("nope", "z", "a", "z", "bad name", ""),
        allow_auto_topic_creation=False,
    )
    assert told(answer) == [
        ("z", ErrorCode.NONE),
        ("a", ErrorCode.NONE),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("bad name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    assert node.errors(ApiKey.METADATA) == {3: 1, 17: 2}


def test_ids_are_looked_up_and_unknown_ids_come_first(node: AskedBroker) -> None:
    topic_id = node.create("a").topic_id
    answer = node.ask(ApiKey.METADATA, 12, topics=by_id(topic_id, b"\1" * 16))
    assert [(t.name, t.error_code, t.topic_id) for t in answer.topics] == [
        (None, ErrorCode.UNKNOWN_TOPIC_ID, b"\1" * 16),
        ("a", ErrorCode.NONE, topic_id),
    ]


def test_a_name_beside_an_id_does_not_count(node: AskedBroker) -> None:
    topic_id = node.create("a").topic_id
    answer = node.ask(ApiKey.METADATA, 12, topics=[{"name": "other", "topic_id": topic_id}])
    assert told(answer) == [("a", 0)]


@pytest.mark.parametrize("topic", [{"name": "a", "topic_id": b"\1" * 16}, {"name": None}])
def test_version_10_has_ids_but_refuses_them(node: AskedBroker, topic: dict[str, object]) -> None:
    answer = node.ask(ApiKey.METADATA, 10, topics=[topic])
    assert [t.error_code for t in answer.topics] == [ErrorCode.INVALID_REQUEST]
    assert (answer.brokers, answer.controller_id) == ([], -1)


def test_neither_name_nor_id_is_an_error(node: AskedBroker) -> None:
    answer = node.ask(ApiKey.METADATA, 13, topics=by_id(ZERO_UUID))
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert told(answer) == [("", ErrorCode.UNKNOWN_SERVER_ERROR)]


# Creating what is missing


def test_a_missing_topic_is_created_and_found_when_the_client_asks_again(
    tmp_path: Path,
) -> None:
    node = AskedBroker(tmp_path, num_partitions="3")
    first = node.ask(ApiKey.METADATA, 9, topics=named("new"), allow_auto_topic_creation=True)
    assert told(first) == [("new", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    again = node.ask(ApiKey.METADATA, 9, topics=named("new"), allow_auto_topic_creation=True)
    assert told(again) == [("new", ErrorCode.NONE)]
    assert len(again.topics[0].partitions) == 3


def test_versions_before_4_cannot_forbid_creation(node: AskedBroker) -> None:
    node.ask(ApiKey.METADATA, 1, topics=named("new"))
    assert "new" in node.broker.image.topics


def test_neither_the_client_nor_the_broker_need_allow_creation(tmp_path: Path) -> None:
    node = AskedBroker(tmp_path, auto_create_topics_enable="false")
    node.ask(ApiKey.METADATA, 9, topics=named("new"), allow_auto_topic_creation=True)
    assert node.submitted == 0


def test_internal_topics_are_created_in_the_shape_that_coordinators_need(
    tmp_path: Path,
) -> None:
    node = AskedBroker(
        tmp_path,
        offsets_topic_replication_factor="1",
        offsets_topic_num_partitions="5",
    )
    request: dict[str, Any] = {
        "topics": named("__consumer_offsets"),
        "allow_auto_topic_creation": True,
    }
    missing = node.ask(ApiKey.METADATA, 9, **request)
    assert missing.topics[0].is_internal
    found = node.ask(ApiKey.METADATA, 9, **request)
    assert (found.topics[0].is_internal, len(found.topics[0].partitions)) == (True, 5)
    assert node.broker.image.configs[2, "__consumer_offsets"] == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }


def test_a_topic_that_cannot_be_created_stays_unknown(node: AskedBroker) -> None:
    # Three replicas by default, and there is one broker.
    request: dict[str, Any] = {
        "topics": named("__transaction_state"),
        "allow_auto_topic_creation": True,
    }
    for _ in range(2):
        answer = node.ask(ApiKey.METADATA, 9, **request)
        assert told(answer) == [("__transaction_state", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


# The cluster


def test_brokers_have_the_address_of_the_listener_that_the_client_came_by(
    node: AskedBroker,
) -> None:
    outside = Endpoint(name="OUTSIDE", host="example.org", port=4711, security_protocol=0)
    inside = Endpoint(name="PLAINTEXT", host="b1", port=9092, security_protocol=0)
    node.commit([registration(end_points=(inside, outside), rack="east")])
    answer = node.ask(ApiKey.METADATA, 9, topics=[], listener="OUTSIDE")
    assert [(b.node_id, b.host, b.port, b.rack) for b in answer.brokers] == [
        (NODE, "example.org", 4711, "east")
    ]
    assert (answer.cluster_id, answer.controller_id) == (CLUSTER_ID, NODE)


def test_a_fenced_broker_is_not_told_and_its_replicas_are_offline(node: AskedBroker) -> None:
    node.create("a")
    node.fence(NODE)
    answer = node.ask(ApiKey.METADATA, 9, topics=named("a"))
    assert (answer.brokers, answer.controller_id) == ([], -1)
    assert answer.topics[0].partitions[0].offline_replicas == [NODE]


def test_operations_are_told_only_when_asked_for(node: AskedBroker) -> None:
    node.create("a")
    silent = node.ask(ApiKey.METADATA, 9, topics=named("a"))
    assert silent.topics[0].topic_authorized_operations == NOT_ASKED
    assert silent.cluster_authorized_operations == NOT_ASKED
    asked = node.ask(
        ApiKey.METADATA,
        9,
        topics=named("a", "nope"),
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    assert [t.topic_authorized_operations for t in asked.topics] == [TOPIC_OPERATIONS] * 2
    assert asked.cluster_authorized_operations == CLUSTER_OPERATIONS


# Partitions


def leaderless(node: AskedBroker, **changes: object) -> None:
    topic_id = node.create("a").topic_id
    fields = {"partition_id": 0, "topic_id": topic_id, "leader": -1} | changes
    node.commit([PartitionChangeRecord(**fields)])  # type: ignore[arg-type]


def test_a_partition_without_leader_says_so(node: AskedBroker) -> None:
    leaderless(node)
    (partition,) = node.ask(ApiKey.METADATA, 9, topics=named("a")).topics[0].partitions
    assert partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert (partition.leader_id, partition.leader_epoch) == (-1, 1)


@pytest.mark.parametrize(
    ("version", "expected"),
    [(5, ErrorCode.LEADER_NOT_AVAILABLE), (6, ErrorCode.LISTENER_NOT_FOUND)],
)
def test_a_leader_without_the_clients_listener_is_out_of_reach(
    node: AskedBroker, version: int, expected: ErrorCode
) -> None:
    node.create("a")
    answer = node.ask(ApiKey.METADATA, version, topics=named("a"), listener="OUTSIDE")
    (partition,) = answer.topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (expected, -1)


def test_a_replica_in_a_lost_directory_is_offline(node: AskedBroker) -> None:
    leaderless(node, directories=(LOST_DIR,))
    (partition,) = node.ask(ApiKey.METADATA, 9, topics=named("a")).topics[0].partitions
    assert partition.offline_replicas == [NODE]


def test_version_0_leaves_out_replicas_that_are_away(node: AskedBroker) -> None:
    topic_id = node.create("a").topic_id
    node.commit(
        [
            PartitionRecord(
                partition_id=1,
                topic_id=topic_id,
                replicas=(NODE, 2),
                isr=(NODE,),
                leader=NODE,
                leader_epoch=0,
                partition_epoch=0,
                directories=(ZERO_UUID, ZERO_UUID),
            )
        ]
    )
    old = node.ask(ApiKey.METADATA, 0, topics=named("a")).topics[0].partitions[1]
    assert (old.error_code, old.replica_nodes) == (ErrorCode.REPLICA_NOT_AVAILABLE, [NODE])
    new = node.ask(ApiKey.METADATA, 9, topics=named("a")).topics[0].partitions[1]
    assert (new.error_code, new.replica_nodes, new.offline_replicas) == (0, [NODE, 2], [2])


# The cache


def test_an_answer_is_kept_until_the_metadata_change(node: AskedBroker) -> None:
    node.create("a")
    first = node.ask_raw(ApiKey.METADATA, 9, topics=None)
    (kept,) = node.broker.metadata_cache.values()
    assert kept == first == node.ask_raw(ApiKey.METADATA, 9, topics=None)
    node.create("b")
    assert node.ask_raw(ApiKey.METADATA, 9, topics=None) != first


def test_answers_to_different_questions_are_kept_apart(node: AskedBroker) -> None:
    topic_id = node.create("a").topic_id
    questions: list[dict[str, Any]] = [
        {"topics": None},
        {"topics": named("a")},
        {"topics": by_id(topic_id)},
        {"topics": named("a"), "include_topic_authorized_operations": True},
        {"topics": named("a"), "listener": "OUTSIDE"},
    ]
    for question in questions:
        node.ask(ApiKey.METADATA, 12, **question)
    assert len(node.broker.metadata_cache) == len(questions)


def test_missing_topics_are_not_kept(node: AskedBroker) -> None:
    for number in range(5):
        name = f"nope-{number}"
        node.ask(ApiKey.METADATA, 9, topics=named(name), allow_auto_topic_creation=False)
    assert node.broker.metadata_cache == {}


def test_the_cache_is_bounded(node: AskedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        node.create(name)
    monkeypatch.setattr(metadata, "CACHE_ENTRIES_MAX", 2)
    for name in "abc":
        node.ask(ApiKey.METADATA, 9, topics=named(name))
    assert len(node.broker.metadata_cache) == 1
    monkeypatch.setattr(metadata, "CACHE_BYTES_MAX", 10)
    node.broker.metadata_cache.clear()
    node.ask(ApiKey.METADATA, 9, topics=named("a"))
    assert node.broker.metadata_cache == {}


# DescribeTopicPartitions


def page(
    node: AskedBroker, limit: int, cursor: tuple[str, int] | None = None, *names: str
) -> tuple[list[tuple[str, int, list[int]]], tuple[str, int] | None]:
    answer = node.ask(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        topics=named(*names),
        response_partition_limit=limit,
        cursor=None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]},
    )
    following = answer.next_cursor
    return (
        [
            (topic.name, topic.error_code, [p.partition_index for p in topic.partitions])
            for topic in answer.topics
        ],
        None if following is None else (following.topic_name, following.partition_index),
    )


@pytest.fixture
def three(node: AskedBroker) -> AskedBroker:
    for name, partitions in (("zeta", 2), ("alpha", 1), ("mid", 3)):
        node.create(name, partitions)
    return node


def test_pages_go_by_name_and_end_with_a_cursor(three: AskedBroker) -> None:
    assert page(three, 3) == ([("alpha", 0, [0]), ("mid", 0, [0, 1])], ("mid", 2))
    assert page(three, 2, ("mid", 2)) == ([("mid", 0, [2]), ("zeta", 0, [0])], ("zeta", 1))
    assert page(three, 9, ("zeta", 1)) == ([("zeta", 0, [1])], None)


def test_a_page_that_ends_with_a_topic_points_to_the_next(three: AskedBroker) -> None:
    assert page(three, 1) == ([("alpha", 0, [0])], ("mid", 0))
    assert page(three, -1) == ([("alpha", 0, [0])], ("mid", 0))


def test_a_limit_beyond_the_brokers_own_is_cut(tmp_path: Path) -> None:
    node = AskedBroker(tmp_path, max_request_partition_size_limit="2")
    node.create("a", 4)
    assert page(node, 1000) == ([("a", 0, [0, 1])], ("a", 2))


def test_a_cursor_to_a_topic_that_is_gone_goes_on_with_the_next(three: AskedBroker) -> None:
    assert page(three, 9, ("nope", 1)) == ([("zeta", 0, [0, 1])], None)
    assert page(three, 1, ("mid", 7)) == ([("mid", 0, []), ("zeta", 0, [0])], ("zeta", 1))


def test_named_topics_are_told_with_their_errors_in_order(three: AskedBroker) -> None:
    assert page(three, 1, None, "zeta", "alpha", "nope", "bad name", "zeta") == (
        [("alpha", 0, [0])],
        ("bad name", 0),
    )
    assert page(three, 9, ("bad name", 0), "zeta", "nope", "bad name") == (
        [("bad name", 17, []), ("nope", 3, []), ("zeta", 0, [0, 1])],
        None,
    )


def test_a_cursor_that_was_not_asked_for_is_refused(three: AskedBroker) -> None:
    assert page(three, 9, ("b", 0), "zeta", "alpha") == (
        [("zeta", 42, []), ("alpha", 42, [])],
        None,
    )
    assert page(three, 9, ("mid", -1)) == ([], None)


def test_partitions_are_described_with_their_eligible_leaders(node: AskedBroker) -> None:
    leaderless(node, isr=(), eligible_leader_replicas=(NODE,), last_known_elr=(2,))
    answer = node.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=named("a"))
    (topic,) = answer.topics
    (partition,) = topic.partitions
    assert topic.topic_authorized_operations == TOPIC_OPERATIONS
    assert partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert (partition.isr_nodes, partition.eligible_leader_replicas) == ([], [NODE])
    assert partition.last_known_elr == [2]


# DescribeCluster


def test_fenced_brokers_are_described_when_asked_for(node: AskedBroker) -> None:
    node.commit([registration(2, fenced=True, rack="west")])
    alive = node.ask(ApiKey.DESCRIBE_CLUSTER, 2, include_fenced_brokers=False)
    assert [b.broker_id for b in alive.brokers] == [NODE]
    answer = node.ask(ApiKey.DESCRIBE_CLUSTER, 2, include_fenced_brokers=True)
    assert [(b.broker_id, b.host, b.rack, b.is_fenced) for b in answer.brokers] == [
        (NODE, "b1", None, False),
        (2, "b2", "west", True),
    ]
    assert (answer.cluster_id, answer.controller_id) == (CLUSTER_ID, NODE)


def test_the_clusters_operations_are_described_when_asked_for(node: AskedBroker) -> None:
    asked = node.ask(ApiKey.DESCRIBE_CLUSTER, 0, include_cluster_authorized_operations=True)
    assert asked.cluster_authorized_operations == CLUSTER_OPERATIONS
    silent = node.ask(ApiKey.DESCRIBE_CLUSTER, 0)
    assert silent.cluster_authorized_operations == NOT_ASKED


@pytest.mark.parametrize(
    ("endpoint_type", "expected"),
    [
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_a_brokers_listener_describes_no_controllers(
    node: AskedBroker, endpoint_type: int, expected: ErrorCode
) -> None:
    answer = node.ask(ApiKey.DESCRIBE_CLUSTER, 1, endpoint_type=endpoint_type)
    assert (answer.error_code, answer.brokers, answer.controller_id) == (expected, [], -1)
    assert answer.error_message
