"""Configs, features, quorum and log directories, and frames that no version allows."""

import pytest
from batches import batch_of
from differential import (
    ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_QUORUM,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_CONFIG_RESOURCES,
    UPDATE_FEATURES,
    Stage,
    same_answers,
)

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def describe(
    stage: Stage,
    kind: int,
    name: str,
    keys: list[str] | None = None,
    version: int = 4,
    **more: bool,
) -> None:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    stage.ask(DESCRIBE_CONFIGS, version, resources=[resource], **more)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
@same_answers
def test_a_topics_configs(stage: Stage, version: int) -> None:
    topic = stage.topic(retention_ms="77", cleanup_policy="compact,delete")
    describe(stage, TOPIC, topic, version=version)
    describe(stage, TOPIC, topic, version=version, include_synonyms=True)
    describe(stage, TOPIC, topic, ["retention.ms", "no.such"], version=version)
    describe(stage, TOPIC, topic, [], version=version)


@same_answers
def test_resources_that_do_not_exist(stage: Stage) -> None:
    for kind, name in (
        (TOPIC, "unknown"),
        (TOPIC, ""),
        (TOPIC, "bad name"),
        (BROKER, "99"),
        (BROKER, "x"),
        (0, "x"),
        (3, "x"),
        (99, "x"),
        (CLIENT_METRICS, ""),
        (GROUP, ""),
    ):
        describe(stage, kind, name)


# What the two files of settings say differently, and where Java is on one side only.
OWN_TO_EACH = {
    "log.dirs",
    "listeners",
    "advertised.listeners",
    "controller.quorum.bootstrap.servers",
}


@pytest.mark.parametrize("name", ["1", ""])
@same_answers
def test_a_brokers_configs(stage: Stage, name: str) -> None:
    resource = {"resource_type": BROKER, "resource_name": name, "configuration_keys": None}
    answer = stage.ask_unnoted(DESCRIBE_CONFIGS, 4, resources=[resource], include_synonyms=True)
    (result,) = answer["results"]
    stage.note([result["error_code"], result["resource_name"]])
    for config in sorted(result["configs"], key=lambda each: each["name"]):
        if config["name"] not in OWN_TO_EACH:
            stage.note({**config, "documentation": None})


def change(
    stage: Stage,
    kind: int,
    name: str,
    *configs: tuple[str, int, str | None],
    version: int = 1,
    validate_only: bool = False,
) -> None:
    wanted = [
        {"name": key, "config_operation": operation, "value": value}
        for key, operation, value in configs
    ]
    resources = [{"resource_type": kind, "resource_name": name, "configs": wanted}]
    stage.ask(INCREMENTAL_ALTER_CONFIGS, version, resources=resources, validate_only=validate_only)


CHANGES: dict[str, list[tuple[str, int, str | None]]] = {
    "nothing": [],
    "set": [("retention.ms", SET, "5")],
    "set two": [("retention.ms", SET, "5"), ("segment.bytes", SET, "2000000")],
    "set null": [("retention.ms", SET, None)],
    "set bad": [("retention.ms", SET, "x")],
    "set out of range": [("segment.bytes", SET, "1")],
    "set unknown": [("no.such", SET, "1")],
    "delete": [("retention.ms", DELETE, None)],
    "delete unset": [("segment.bytes", DELETE, None)],
    "delete unknown": [("no.such", DELETE, None)],
    "append": [("cleanup.policy", APPEND, "compact")],
    "append twice": [("cleanup.policy", APPEND, "delete")],
    "append bad": [("cleanup.policy", APPEND, "burn")],
    "append to a number": [("retention.ms", APPEND, "5")],
    "subtract": [("cleanup.policy", SUBTRACT, "delete")],
    "subtract absent": [("cleanup.policy", SUBTRACT, "compact")],
    "subtract from a number": [("retention.ms", SUBTRACT, "5")],
    "same key twice": [("retention.ms", SET, "5"), ("retention.ms", SET, "6")],
    "empty key": [("", SET, "5")],
}


@pytest.mark.parametrize("what", CHANGES)
@same_answers
def test_changes_of_a_topics_configs(stage: Stage, what: str) -> None:
    topic = stage.topic(retention_ms="77")
    for version in (0, 1):
        change(stage, TOPIC, topic, *CHANGES[what], version=version, validate_only=True)
    change(stage, TOPIC, topic, *CHANGES[what])
    describe(stage, TOPIC, topic, ["retention.ms", "segment.bytes", "cleanup.policy"])


@same_answers
def test_changes_of_other_resources(stage: Stage) -> None:
    good = ("retention.ms", SET, "5")
    for kind, name in (
        (TOPIC, "unknown"),
        (TOPIC, ""),
        (TOPIC, "bad name"),
        (0, "x"),
        (3, "x"),
        (99, "x"),
        (BROKER, "99"),
        (BROKER, "x"),
    ):
        change(stage, kind, name, good, validate_only=True)


@pytest.mark.parametrize("name", ["1", ""])
@same_answers
def test_changes_of_a_brokers_configs(stage: Stage, name: str) -> None:
    for key, value in (
        ("log.retention.ms", "86400000"),
        ("log.retention.ms", "x"),
        ("node.id", "5"),
        ("no.such", "5"),
        ("num.io.threads", "8"),
        ("log.segment.bytes", "1"),
        ("log.cleaner.threads", "2"),
        ("listeners", "PLAINTEXT://:1"),
        ("background.threads", "10"),
    ):
        change(stage, BROKER, name, (key, SET, value), validate_only=True)


@same_answers
def test_the_same_resource_twice(stage: Stage) -> None:
    topic = stage.topic()
    one = {
        "resource_type": TOPIC,
        "resource_name": topic,
        "configs": [{"name": "retention.ms", "config_operation": SET, "value": "5"}],
    }
    stage.ask(INCREMENTAL_ALTER_CONFIGS, 1, resources=[one, one])


@pytest.mark.parametrize("version", [0, 1, 2])
@same_answers
def test_all_configs_are_replaced_at_once(stage: Stage, version: int) -> None:
    topic = stage.topic(retention_ms="77", flush_ms="9")

    def replace(name: str, *configs: tuple[str, str | None], only: bool = False) -> None:
        wanted = [{"name": key, "value": value} for key, value in configs]
        resource = {"resource_type": TOPIC, "resource_name": name, "configs": wanted}
        stage.ask(ALTER_CONFIGS, version, resources=[resource], validate_only=only)

    replace(topic, ("segment.bytes", "2000000"), only=True)
    replace(topic, ("segment.bytes", "x"))
    replace(topic, ("no.such", "x"))
    replace(topic, ("segment.bytes", None))
    replace("unknown", ("segment.bytes", "2000000"))
    replace(topic, ("segment.bytes", "2000000"))
    describe(stage, TOPIC, topic, ["retention.ms", "flush.ms", "segment.bytes"])


@same_answers
def test_resources_with_configs_are_listed(stage: Stage) -> None:
    stage.ask(LIST_CONFIG_RESOURCES, 0)
    for kinds in ([BROKER], [BROKER_LOGGER], [CLIENT_METRICS], [GROUP], [99], [0]):
        stage.ask(LIST_CONFIG_RESOURCES, 1, resource_types=kinds)


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
@same_answers
def test_log_directories(stage: Stage, version: int) -> None:
    topic = stage.topic(partitions=2)
    stage.fill(topic, batch_of(b"v" * 500).encode())
    for wanted in (
        [{"topic": topic, "partitions": [0, 1]}],
        [{"topic": topic, "partitions": [0]}],
        [{"topic": topic, "partitions": [7]}],
        [{"topic": "unknown", "partitions": [0]}],
        [],
    ):
        answer = stage.ask_unnoted(DESCRIBE_LOG_DIRS, version, topics=wanted)
        for result in answer["results"]:
            for name in ("total_bytes", "usable_bytes"):
                if name in result:
                    result[name] = result[name] > 0
        stage.note(answer)


@pytest.mark.parametrize("version", [0, 1, 2])
@same_answers
def test_the_quorum(stage: Stage, version: int) -> None:
    for topic, index in (("__cluster_metadata", 0), ("__cluster_metadata", 1), ("other", 0)):
        wanted = [{"topic_name": topic, "partitions": [{"partition_index": index}]}]
        answer = stage.ask_unnoted(DESCRIBE_QUORUM, version, topics=wanted)
        for each in (p for t in answer["topics"] for p in t["partitions"]):
            each["high_watermark"] = each["high_watermark"] > 0
            each["leader_epoch"] = each["leader_epoch"] > 0
            for voter in each["current_voters"]:
                voter["log_end_offset"] = voter["log_end_offset"] > 0
        for each in (
            listener for node in answer.get("nodes", []) for listener in node["listeners"]
        ):
            each["port"] = each["port"] > 0
        stage.note(answer)
    stage.ask(DESCRIBE_QUORUM, version, topics=[])


@pytest.mark.parametrize("version", [0, 1, 2])
@same_answers
def test_features_that_cannot_be_changed_so(stage: Stage, version: int) -> None:
    more = {"validate_only": True} if version >= 1 else {}

    def update(feature: str, level: int, kind: int = 1) -> None:
        one = {"feature": feature, "max_version_level": level}
        if version >= 1:
            one["upgrade_type"] = kind
        stage.ask(UPDATE_FEATURES, version, timeout=5000, feature_updates=[one], **more)

    update("no.such", 1)
    update("metadata.version", 99)
    update("transaction.version", 9)
    update("metadata.version", 30)
    if version >= 1:
        for kind in (0, 1, 2, 3, 9):
            update("group.version", 0, kind)
            update("metadata.version", 29, kind)


FRAMES = {
    "unknown key": b"\x03\xe7\x00\x00\x00\x00\x00\x01\xff\xff",
    "negative key": b"\xff\xff\x00\x00\x00\x00\x00\x01\xff\xff",
    "version too new": b"\x00\x03\x00\x63\x00\x00\x00\x01\xff\xff",
    "version too old": b"\x00\x01\x00\x00\x00\x00\x00\x01\xff\xff" + bytes(30),
    "produce version 2": b"\x00\x00\x00\x02\x00\x00\x00\x01\xff\xff" + bytes(12),
    "negative version": b"\x00\x03\xff\xff\x00\x00\x00\x01\xff\xff",
    "cut in the header": b"\x00\x03\x00\x01\x00",
    "cut in the body": b"\x00\x03\x00\x01\x00\x00\x00\x01\xff\xff\x00\x00",
    "a count beyond the frame": b"\x00\x03\x00\x01\x00\x00\x00\x01\xff\xff\x7f\xff\xff\xff",
    "a client id beyond the frame": b"\x00\x03\x00\x01\x00\x00\x00\x01\x7f\xff",
    "bytes after the body": b"\x00\x03\x00\x01\x00\x00\x00\x01\xff\xff\x00\x00\x00\x00extra",
    "empty": b"",
}


@pytest.mark.parametrize("what", FRAMES)
@same_answers
def test_frames_that_are_wrong(stage: Stage, what: str) -> None:
    stage.client.send_frame(FRAMES[what])
    stage.note(stage.client.is_closed_by_peer())


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 104_857_601])
@same_answers
def test_sizes_that_are_wrong(stage: Stage, size: int) -> None:
    stage.client.send_bytes(size.to_bytes(4, "big", signed=True))
    stage.note(stage.client.is_closed_by_peer())
