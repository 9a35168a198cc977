from typing import Any

import pytest
from played_cluster import PlayedCluster, numbered_uuid, request, topic

from pykraft.core.controller.image import RECOVERED, RECOVERING
from pykraft.ids import LOST_DIR
from pykraft.protocol.errors import ErrorCode
from pykraft.protocol.versions import ApiKey


def a_cluster() -> PlayedCluster:
    cluster = PlayedCluster().with_brokers(1, 2, 3)
    cluster.create(topic("t", assignments={0: [1, 2, 3]}))
    return cluster


def alter(cluster: PlayedCluster, isr: list[int], broker: int = 1, **changed: Any) -> Any:
    partition = cluster.partition("t")
    brokers = cluster.image.brokers
    wish = {
        "partition_index": 0,
        "leader_epoch": partition.leader_epoch,
        "new_isr_with_epochs": [
            {"broker_id": each, "broker_epoch": brokers[each].epoch if each in brokers else -1}
            for each in isr
        ],
        "leader_recovery_state": RECOVERED,
        "partition_epoch": partition.partition_epoch,
        **changed,
    }
    topics = [{"topic_id": cluster.image.topics["t"].id, "partitions": [wish]}]
    body = request(
        ApiKey.ALTER_PARTITION,
        broker_id=broker,
        broker_epoch=brokers[broker].epoch,
        topics=topics,
    )
    _, reply = cluster.run(cluster.controller.alter_partition(body))
    return reply["topics"][0]["partitions"][0]


def test_the_leader_shrinks_and_grows_its_isr() -> None:
    cluster = a_cluster()
    reply = alter(cluster, [1, 2])
    assert (reply["error_code"], reply["isr"], reply["partition_epoch"]) == (0, [1, 2], 1)
    assert cluster.partition("t").isr == (1, 2)
    assert cluster.partition("t").leader_epoch == 0
    alter(cluster, [1, 2, 3])
    assert cluster.partition("t").isr == (1, 2, 3)


@pytest.mark.parametrize(
    ("isr", "broker", "changed", "code"),
    [
        ([1, 2], 2, {}, ErrorCode.INVALID_REQUEST),
        ([2, 3], 1, {}, ErrorCode.INVALID_REQUEST),
        ([1, 9], 1, {}, ErrorCode.INVALID_REQUEST),
        ([1], 1, {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ([1], 1, {"leader_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        ([1], 1, {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        ([1], 1, {"partition_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        ([1], 1, {"partition_index": 9}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([1], 1, {"leader_recovery_state": RECOVERING}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_wish_that_does_not_fit_changes_nothing(
    isr: list[int], broker: int, changed: dict[str, int], code: ErrorCode
) -> None:
    cluster = a_cluster()
    assert alter(cluster, isr, broker, **changed)["error_code"] == code
    assert cluster.partition("t").isr == (1, 2, 3)


def test_a_fenced_broker_cannot_join_an_isr() -> None:
    cluster = a_cluster()
    cluster.heartbeat(3, want_fence=True)
    assert alter(cluster, [1, 2, 3])["error_code"] == ErrorCode.INELIGIBLE_REPLICA


def test_a_leader_elected_uncleanly_reports_that_it_has_recovered() -> None:
    cluster = PlayedCluster().with_brokers(1)
    cluster.create(topic("t"))
    cluster.crash()
    cluster.run(cluster.controller.fence_dead_broker(1))
    cluster.register(1)
    cluster.heartbeat(1)
    assert cluster.partition("t").recovery_state == RECOVERING
    epoch = cluster.partition("t").leader_epoch
    assert alter(cluster, [1])["error_code"] == ErrorCode.NONE
    assert cluster.partition("t").recovery_state == RECOVERED
    assert cluster.partition("t").leader_epoch == epoch


def assign(cluster: PlayedCluster, directory: bytes, broker: int = 1, index: int = 0) -> Any:
    topics = [
        {
            "topic_id": cluster.image.topics["t"].id,
            "partitions": [{"partition_index": index}],
        }
    ]
    body = request(
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        broker_id=broker,
        broker_epoch=cluster.image.brokers[broker].epoch,
        directories=[{"id": directory, "topics": topics}],
    )
    _, reply = cluster.run(cluster.controller.assign_replicas_to_dirs(body))
    return reply["directories"][0]["topics"][0]["partitions"][0]["error_code"]


def test_a_broker_says_in_which_directory_a_replica_lives() -> None:
    cluster = a_cluster()
    others = cluster.partition("t").directories[1:]
    home = numbered_uuid(501)
    assert assign(cluster, home) == ErrorCode.NONE
    assert cluster.partition("t").directories == (home, *others)
    assert assign(cluster, home, index=5) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_replica_whose_directory_is_lost_leaves_the_isr() -> None:
    cluster = a_cluster()
    assert assign(cluster, LOST_DIR) == ErrorCode.NONE
    assert cluster.partition("t").isr == (2, 3)
    assert cluster.partition("t").leader == 2
