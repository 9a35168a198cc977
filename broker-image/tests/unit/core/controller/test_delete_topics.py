from typing import Any

from played_cluster import PlayedCluster, numbered_uuid, request, topic

from pykraft.ids import ZERO_UUID
from pykraft.protocol.errors import ErrorCode
from pykraft.protocol.versions import ApiKey


def delete(cluster: PlayedCluster, *wishes: tuple[str | None, bytes], version: int = 6) -> Any:
    wanted = [{"name": name, "topic_id": topic_id} for name, topic_id in wishes]
    body = request(ApiKey.DELETE_TOPICS, topics=wanted, timeout=1000)
    _, reply = cluster.run(cluster.controller.delete_topics(body, version))
    return [
        (each["name"], each["topic_id"], each["error_code"], each["error_message"])
        for each in reply["responses"]
    ]


def a_cluster() -> tuple[PlayedCluster, bytes]:
    cluster = PlayedCluster().with_brokers(1)
    cluster.create(topic("t", configs={"retention.ms": "1"}), topic("u"))
    return cluster, cluster.image.topics["t"].id


def test_a_topic_goes_by_name_and_with_it_its_configs() -> None:
    cluster, topic_id = a_cluster()
    assert delete(cluster, ("t", ZERO_UUID)) == [("t", topic_id, ErrorCode.NONE, None)]
    assert list(cluster.image.topics) == ["u"]
    assert topic_id not in cluster.image.topics_by_id
    assert (2, "t") not in cluster.image.configs


def test_a_topic_goes_by_id_and_the_answer_tells_its_name() -> None:
    cluster, topic_id = a_cluster()
    assert delete(cluster, (None, topic_id)) == [("t", topic_id, ErrorCode.NONE, None)]


def test_older_versions_name_topics_in_a_list() -> None:
    cluster, _ = a_cluster()
    body = request(ApiKey.DELETE_TOPICS, topics=[], timeout=1)
    body.topic_names = ["t", "x"]
    _, reply = cluster.run(cluster.controller.delete_topics(body, 5))
    assert {each["name"]: each["error_code"] for each in reply["responses"]} == {
        "t": ErrorCode.NONE,
        "x": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_what_does_not_exist_is_unknown_by_name_or_by_id() -> None:
    cluster, _ = a_cluster()
    (by_name,) = delete(cluster, ("x", ZERO_UUID))
    assert by_name[2] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (by_id,) = delete(cluster, (None, numbered_uuid(77)))
    assert by_id[:3] == (None, numbered_uuid(77), ErrorCode.UNKNOWN_TOPIC_ID)


def test_neither_or_both_of_name_and_id_are_refused() -> None:
    cluster, topic_id = a_cluster()
    (neither,) = delete(cluster, (None, ZERO_UUID))
    assert neither[2:] == (ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    (both,) = delete(cluster, ("t", topic_id))
    assert both[3] == "You may not specify both topic name and topic id."


def test_the_same_topic_twice_is_deleted_by_neither_wish() -> None:
    cluster, topic_id = a_cluster()
    (by_name,) = delete(cluster, ("t", ZERO_UUID), ("t", ZERO_UUID))
    assert by_name[2:] == (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    (by_id,) = delete(cluster, (None, topic_id), (None, topic_id))
    assert by_id[3] == "Duplicate topic id."
    (once_each,) = delete(cluster, ("t", ZERO_UUID), (None, topic_id))
    assert once_each[3] == "The provided topic name maps to an ID that was already supplied."
    assert "t" in cluster.image.topics


def test_deletion_can_be_disabled() -> None:
    cluster = PlayedCluster(delete_topic_enable=False).with_brokers(1)
    cluster.create(topic("t"))
    ((_, _, code, _),) = delete(cluster, ("t", ZERO_UUID))
    assert code == ErrorCode.TOPIC_DELETION_DISABLED
    ((_, _, code, _),) = delete(cluster, ("t", ZERO_UUID), version=2)
    assert code == ErrorCode.INVALID_REQUEST
    assert "t" in cluster.image.topics
