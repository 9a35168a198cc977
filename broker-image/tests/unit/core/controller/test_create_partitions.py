from typing import Any

import pytest
from played_cluster import PlayedCluster, request, topic

from pykraft.protocol.errors import ErrorCode
from pykraft.protocol.versions import ApiKey


def grow(cluster: PlayedCluster, *wishes: tuple[str, int, Any], validate_only: bool = False) -> Any:
    topics = [
        {
            "name": name,
            "count": count,
            "assignments": assigned and [{"broker_ids": each} for each in assigned],
        }
        for name, count, assigned in wishes
    ]
    body = request(
        ApiKey.CREATE_PARTITIONS, topics=topics, timeout=1000, validate_only=validate_only
    )
    _, reply = cluster.run(cluster.controller.create_partitions(body))
    return [(each["error_code"], each["error_message"]) for each in reply["results"]]


def a_cluster() -> PlayedCluster:
    cluster = PlayedCluster().with_brokers(1, 2)
    cluster.create(topic("t", 1, 1))
    return cluster


def test_partitions_are_added_behind_those_that_exist() -> None:
    cluster = a_cluster()
    assert grow(cluster, ("t", 3, None)) == [(ErrorCode.NONE, None)]
    assert list(cluster.image.topics["t"].partitions) == [0, 1, 2]


def test_an_assignment_is_obeyed() -> None:
    cluster = a_cluster()
    assert grow(cluster, ("t", 3, [[2], [1]])) == [(ErrorCode.NONE, None)]
    assert [cluster.partition("t", index).leader for index in (1, 2)] == [2, 1]


def test_validate_only_adds_nothing() -> None:
    cluster = a_cluster()
    assert grow(cluster, ("t", 3, None), validate_only=True) == [(ErrorCode.NONE, None)]
    assert len(cluster.image.topics["t"].partitions) == 1


@pytest.mark.parametrize(
    ("count", "assigned", "code", "message"),
    [
        (1, None, ErrorCode.INVALID_PARTITIONS, "Topic already has 1 partition(s)."),
        (0, None, ErrorCode.INVALID_PARTITIONS, "0 would not be an increase"),
        (3, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "but only 1 assignment(s)"),
        (2, [[9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "includes broker 9"),
        (2, [[1, 2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition with 2 replica(s)"),
        (20_002, None, ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions"),
    ],
)
def test_what_kafka_refuses_is_refused(
    count: int, assigned: list[list[int]] | None, code: ErrorCode, message: str
) -> None:
    ((said, why),) = grow(a_cluster(), ("t", count, assigned))
    assert said == code
    assert message in why


def test_an_unknown_topic_is_unknown_and_a_repeated_one_refused() -> None:
    cluster = a_cluster()
    assert grow(cluster, ("x", 2, None)) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)]
    assert grow(cluster, ("t", 2, None), ("t", 3, None)) == [
        (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    ]
