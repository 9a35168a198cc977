"""CreateTopics, DeleteTopics, CreatePartitions, Metadata and their kin, answered alike."""

import pytest
from differential import (
    API_VERSIONS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_CLUSTER,
    DESCRIBE_TOPIC_PARTITIONS,
    METADATA,
    Stage,
    same_answers,
)

ONE = {"num_partitions": 1, "replication_factor": 1}


def create(stage: Stage, version: int = 7, validate_only: bool = False, **topic: object) -> None:
    """Ask for one topic and note the answer; its configs are another scene's matter."""
    answer = stage.ask_unnoted(
        CREATE_TOPICS, version, topics=[topic], timeout=5000, validate_only=validate_only
    )
    for each in answer["topics"]:
        each.pop("configs", None)
    stage.note(answer)


def assigned(*replicas: list[int]) -> list[dict[str, object]]:
    return [{"partition_index": at, "broker_ids": ids} for at, ids in enumerate(replicas)]


MANUAL = {"num_partitions": -1, "replication_factor": -1}
TOPICS = {
    "good": {**ONE},
    "defaults": {"num_partitions": -1, "replication_factor": -1},
    "no partitions": {**ONE, "num_partitions": 0},
    "minus two partitions": {**ONE, "num_partitions": -2},
    "no replicas": {**ONE, "replication_factor": 0},
    "too many replicas": {**ONE, "replication_factor": 2},
    "minus two replicas": {**ONE, "replication_factor": -2},
    "assigned": {**MANUAL, "assignments": assigned([1], [1])},
    "assigned and counted": {**ONE, "assignments": assigned([1])},
    "assigned to nobody": {**MANUAL, "assignments": assigned([])},
    "assigned to an unknown broker": {**MANUAL, "assignments": assigned([7])},
    "assigned twice to one broker": {**MANUAL, "assignments": assigned([1, 1])},
    "assigned unevenly": {**MANUAL, "assignments": assigned([1], [1, 2])},
    "assigned with a hole": {**MANUAL, "assignments": [{"partition_index": 1, "broker_ids": [1]}]},
    "assigned one partition twice": {**MANUAL, "assignments": assigned([1]) * 2},
    "unknown config": {**ONE, "configs": [{"name": "no.such", "value": "1"}]},
    "bad value": {**ONE, "configs": [{"name": "retention.ms", "value": "x"}]},
    "value out of range": {**ONE, "configs": [{"name": "retention.ms", "value": "-2"}]},
    "bad enum": {**ONE, "configs": [{"name": "cleanup.policy", "value": "burn"}]},
    "null value": {**ONE, "configs": [{"name": "retention.ms", "value": None}]},
    "empty value": {**ONE, "configs": [{"name": "retention.ms", "value": ""}]},
    "spaces around": {**ONE, "configs": [{"name": "retention.ms", "value": " 5 "}]},
    "contradiction": {
        **ONE,
        "configs": [
            {"name": "min.compaction.lag.ms", "value": "10"},
            {"name": "max.compaction.lag.ms", "value": "5"},
        ],
    },
    "config twice": {
        **ONE,
        "configs": [
            {"name": "retention.ms", "value": "10"},
            {"name": "retention.ms", "value": "5"},
        ],
    },
}


@pytest.mark.parametrize("what", TOPICS)
@same_answers
def test_topics_that_can_be_and_that_cannot(stage: Stage, what: str) -> None:
    name = stage.name(what.replace(" ", "-"))
    for version in (2, 4, 5, 7):
        create(stage, version, validate_only=True, name=name, **TOPICS[what])
    create(stage, 7, name=name, **TOPICS[what])
    create(stage, 7, name=name, **TOPICS[what])


NAMES = ["", ".", "..", "a b", "ü", "x" * 249, "x" * 250, "a/b", "a\n", "__consumer_offsets.x"]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
@same_answers
def test_names(stage: Stage, name: str) -> None:
    create(stage, validate_only=True, name=name, **ONE)


@same_answers
def test_names_that_would_share_a_metric(stage: Stage) -> None:
    create(stage, name=stage.name("a.b_c"), **ONE)
    create(stage, name=stage.name("a_b.c"), **ONE)
    create(stage, name=stage.name("a.b.c"), **ONE)


@same_answers
def test_the_same_topic_twice_in_one_request(stage: Stage) -> None:
    twice = [{"name": stage.name("twice"), **ONE}] * 2
    stage.ask(CREATE_TOPICS, 7, topics=[*twice, {"name": "", **ONE}], timeout=5000)


@same_answers
def test_a_new_topic_tells_its_configs(stage: Stage) -> None:
    configs = [
        {"name": "retention.ms", "value": "5"},
        {"name": "cleanup.policy", "value": "compact"},
    ]
    topic = {"name": stage.name("told"), **ONE, "configs": configs}
    for version in (5, 7):
        stage.ask(CREATE_TOPICS, version, topics=[topic], timeout=5000, validate_only=True)
    stage.ask(CREATE_TOPICS, 7, topics=[topic], timeout=5000)


@same_answers
def test_nothing_is_asked_for(stage: Stage) -> None:
    stage.ask(CREATE_TOPICS, 7, topics=[], timeout=5000)
    stage.ask(DELETE_TOPICS, 6, topics=[], timeout=5000)
    stage.ask(CREATE_PARTITIONS, 3, topics=[], timeout=5000)


@pytest.mark.parametrize("version", [1, 3, 4, 5])
@same_answers
def test_deleting_by_name(stage: Stage, version: int) -> None:
    topic = stage.topic()
    stage.ask(DELETE_TOPICS, version, topic_names=[topic, "unknown"], timeout=5000)
    stage.ask(DELETE_TOPICS, version, topic_names=[topic], timeout=5000)
    stage.ask(DELETE_TOPICS, version, topic_names=["", "bad name"], timeout=5000)


@same_answers
def test_deleting_by_id(stage: Stage) -> None:
    topic, other = stage.topic(), stage.topic("other")

    def by_id(topic_id: bytes, name: str | None = None) -> dict[str, object]:
        return {"name": name, "topic_id": topic_id}

    def delete(*topics: dict[str, object]) -> None:
        stage.ask(DELETE_TOPICS, 6, topics=list(topics), timeout=5000)

    delete(by_id(b"\x05" * 16))
    delete(by_id(stage.topic_id(topic), topic))
    delete(by_id(bytes(16)))
    delete(by_id(bytes(16), topic), by_id(stage.topic_id(topic)))
    delete(by_id(stage.topic_id(other)), by_id(stage.topic_id(other)))
    delete(by_id(bytes(16), topic), by_id(bytes(16), topic))
    delete(by_id(stage.topic_id(topic)))
    delete(by_id(stage.topic_id(topic)))
    delete(by_id(bytes(16), other))


@same_answers
def test_more_partitions(stage: Stage) -> None:
    topic = stage.topic(partitions=2)

    def grow(name: str, count: int, assignments: object = None, **more: object) -> None:
        wanted = [{"name": name, "count": count, "assignments": assignments}]
        stage.ask(CREATE_PARTITIONS, 3, topics=wanted, timeout=5000, **more)

    for count in (-1, 0, 1, 2):
        grow(topic, count)
    grow("unknown", 3)
    grow("", 3)
    grow(topic, 4, [{"broker_ids": [1]}])
    grow(topic, 3, [{"broker_ids": [9]}])
    grow(topic, 3, [{"broker_ids": [1, 1]}])
    grow(topic, 3, [{"broker_ids": []}])
    grow(topic, 3, [{"broker_ids": [1]}, {"broker_ids": [1]}])
    grow(topic, 5, validate_only=True)
    grow(topic, 3, [{"broker_ids": [1]}])
    grow(topic, 5)
    wanted = [{"name": topic, "count": 6, "assignments": None}] * 2
    stage.ask(CREATE_PARTITIONS, 3, topics=wanted, timeout=5000)
    metadata(stage, 12, [topic])


def metadata(stage: Stage, version: int, names: list[str] | None, **more: object) -> None:
    topics = None if names is None else [{"name": name} for name in names]
    if version >= 4:
        more.setdefault("allow_auto_topic_creation", False)
    stage.ask(METADATA, version, topics=topics, **more)


@pytest.mark.parametrize("version", range(14))
@same_answers
def test_metadata_of_a_topic(stage: Stage, version: int) -> None:
    topic = stage.topic(partitions=3)
    metadata(stage, version, [topic])
    metadata(stage, version, [topic, topic])


@pytest.mark.parametrize("version", range(4, 14))
@same_answers
def test_metadata_of_what_does_not_exist(stage: Stage, version: int) -> None:
    metadata(stage, version, ["unknown"])
    metadata(stage, version, ["", "bad name", "x" * 250])
    metadata(stage, version, [])


@pytest.mark.parametrize("version", [10, 11, 12, 13])
@same_answers
def test_metadata_by_id(stage: Stage, version: int) -> None:
    topic = stage.topic()
    for topic_id, name in (
        (stage.topic_id(topic), None),
        (b"\x05" * 16, None),
        (stage.topic_id(topic), "other"),
        (bytes(16), None),
    ):
        wanted = [{"topic_id": topic_id, "name": name}]
        stage.ask(METADATA, version, topics=wanted, allow_auto_topic_creation=False)


@pytest.mark.parametrize("version", [8, 9, 10])
@same_answers
def test_metadata_with_allowed_operations(stage: Stage, version: int) -> None:
    topic = stage.topic()
    metadata(
        stage,
        version,
        [topic],
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )


@pytest.mark.parametrize("version", [1, 4, 9, 12])
@same_answers
def test_metadata_creates_a_topic(stage: Stage, version: int) -> None:
    name = stage.name("auto")
    topics = [{"name": name}, {"name": "bad name"}]
    more = {"allow_auto_topic_creation": True} if version >= 4 else {}
    stage.ask(METADATA, version, topics=topics, **more)


@pytest.mark.parametrize("version", [0, 1, 2])
@same_answers
def test_the_cluster(stage: Stage, version: int) -> None:
    stage.ask(DESCRIBE_CLUSTER, version, include_cluster_authorized_operations=False)
    stage.ask(DESCRIBE_CLUSTER, version, include_cluster_authorized_operations=True)
    if version >= 1:
        for kind in (1, 2, 3):
            stage.ask(DESCRIBE_CLUSTER, version, endpoint_type=kind)
    if version >= 2:
        stage.ask(DESCRIBE_CLUSTER, version, include_fenced_brokers=True)


@same_answers
def test_topic_partitions_page_by_page(stage: Stage) -> None:
    one, two = stage.topic("one", partitions=3), stage.topic("two", partitions=2)

    def page(names: list[str], limit: int, cursor: object = None) -> None:
        wanted = {"topics": [{"name": name} for name in names], "cursor": cursor}
        stage.ask(DESCRIBE_TOPIC_PARTITIONS, 0, response_partition_limit=limit, **wanted)

    page([one, two], 2000)
    page([one, two], 2)
    page([two, one], 4)
    page([one, two], 2, {"topic_name": one, "partition_index": 2})
    page([one, two], 2, {"topic_name": two, "partition_index": 0})
    page([one, two], 2, {"topic_name": two, "partition_index": 7})
    page([one, two], 2, {"topic_name": one, "partition_index": -1})
    page([one, two], 0)
    page([one, "unknown", "bad name"], 2000)
    page([one, one], 2000)


SERVED = {0, 1, 2, 3, 18, 19, 20, 21, 22, 23, 32, 33, 35, 37, 44, 55, 57, 60, 61, 74, 75}


@pytest.mark.parametrize("version", range(5))
@same_answers
def test_versions_of_what_is_served(stage: Stage, version: int) -> None:
    who = {"client_software_name": "raw", "client_software_version": "1.0"} if version >= 3 else {}
    answer = stage.ask_unnoted(API_VERSIONS, version, **who)
    answer["api_keys"] = [each for each in answer["api_keys"] if each["api_key"] in SERVED]
    if "finalized_features_epoch" in answer:
        answer["finalized_features_epoch"] = answer["finalized_features_epoch"] > 0
    stage.note(answer)


@same_answers
def test_a_client_with_a_strange_name(stage: Stage) -> None:
    for name, number in (("", "1"), ("a", ""), ("-a", "1"), ("a b", "1"), ("a.b-c", "1.0-x")):
        answer = stage.ask_unnoted(
            API_VERSIONS, 3, client_software_name=name, client_software_version=number
        )
        stage.note(answer["error_code"])


@pytest.mark.parametrize("version", [5, 6, 99, -1])
@same_answers
def test_versions_of_the_future_are_answered_in_the_oldest_form(stage: Stage, version: int) -> None:
    body = b"\x00\x04raw\x021\x00"
    header = b"\x00\x12" + version.to_bytes(2, "big", signed=True) + b"\x00\x00\x00\x05\x00\x03raw"
    stage.client.send_frame(header + body)
    frame = stage.client.read_frame()
    stage.note([frame[:4].hex(), int.from_bytes(frame[4:6], "big")])
    count = int.from_bytes(frame[6:10], "big")
    entries = [frame[10 + 6 * n : 16 + 6 * n].hex() for n in range(count)]
    stage.note([entry for entry in entries if int(entry[:4], 16) in SERVED])
    stage.note(len(frame) == 10 + 6 * count)
