"""What we answer to DescribeConfigs and CreateTopics is what Apache Kafka 4.3.1 answered.

The golden file was recorded from one combined node with the static, dynamic and topic configs
below, first without and then with the dynamic ones. An entry is name, value, read-only, source,
sensitive, type, synonyms; an answer to CreateTopics ends after sensitive.
"""

import json
from pathlib import Path

import pytest

from pykraft.configs import (
    BrokerLayers,
    created_topic_configs,
    describe_broker,
    describe_client_metrics,
    describe_default_broker,
    describe_group,
    describe_loggers,
    describe_topic,
)

GOLDEN = json.loads((Path(__file__).parent / "golden" / "kafka-4.3.1.json").read_text())

STATIC = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "broker.id": "1",
    "controller.quorum.bootstrap.servers": "127.0.0.1:29393",
    "listeners": "PLAINTEXT://127.0.0.1:29392,CONTROLLER://127.0.0.1:29393",
    "advertised.listeners": "PLAINTEXT://127.0.0.1:29392,CONTROLLER://127.0.0.1:29393",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "log.dirs": "data",
    "offsets.topic.replication.factor": "1",
    "log.retention.minutes": "90 ",
    "log.roll.hours": "12",
    "num.io.threads": "4",
    "log.segment.bytes": "536870912",
    "log.cleanup.policy": "compact, delete",
    "log.cleaner.min.cleanable.ratio": ".7",
    "auto.create.topics.enable": "FALSE",
    "group.consumer.session.timeout.ms": "46000",
    "an.unknown.key": "value",
    "ssl.keystore.password": "secret",
    "broker.rack": "r1",
}
BEFORE = BrokerLayers(STATIC, {"min.insync.replicas": "1"}, {})
OVERRIDES_BEFORE = {
    "retention.ms": "1000",
    "cleanup.policy": "compact,delete",
    "max.message.bytes": "2000",
    "segment.ms": "3600000",
}
AFTER = BrokerLayers(
    STATIC,
    {
        "min.insync.replicas": "1",
        "log.segment.bytes": "2000000",
        "message.max.bytes": "3000000",
        "num.io.threads": "6",
        "log.roll.ms": "123456",
        "compression.type": "gzip",
        "custom.default": "w",
        "follower.replication.throttled.rate": "77",
    },
    {
        "log.retention.ms": "7000000",
        "custom.key": "v",
        "log.cleanup.policy": "delete,compact",
        "num.io.threads": "5",
        "leader.replication.throttled.rate": "5000",
        "listener.name.foo.ssl.keystore.location": "/x",
        "log.flush.interval.ms": " 777 ",
    },
)
OVERRIDES_AFTER = OVERRIDES_BEFORE | {
    "internal.segment.bytes": "5000",
    "retention.ms": " 6 ",
    "preallocate": "TRUE",
    "cleanup.policy": "delete, compact",
    "min.cleanable.dirty.ratio": ".25",
    "leader.replication.throttled.replicas": "0:1,0:2",
}
GROUP = {"consumer.session.timeout.ms": "50000"}
SUBSCRIPTION = {"interval.ms": "1000", "metrics": "a,b"}

BEFORE_ANSWERS = {
    "topic": describe_topic({}, BEFORE),
    "topic_overrides": describe_topic(OVERRIDES_BEFORE, BEFORE),
    "broker": describe_broker(BEFORE),
    "group": describe_group({}, BEFORE),
    "metrics": describe_client_metrics({}),
    "created": created_topic_configs({}, BEFORE),
}
AFTER_ANSWERS = {
    "topic": describe_topic({}, AFTER),
    "topic_overrides": describe_topic(OVERRIDES_AFTER, AFTER),
    "broker": describe_broker(AFTER),
    "group": describe_group(GROUP, AFTER),
    "metrics": describe_client_metrics(SUBSCRIPTION),
    "created": created_topic_configs({"retention.bytes": " 5 "}, AFTER),
}


def fact(entry):
    facts = [entry[key] for key in ("name", "value", "read_only", "config_source", "is_sensitive")]
    if "synonyms" not in entry:
        return facts
    synonyms = [[each["name"], each["value"], each["source"]] for each in entry["synonyms"]]
    return [*facts, entry["config_type"], synonyms]


def by_name(facts):
    return {each[0]: each for each in facts}


@pytest.mark.parametrize("kind", BEFORE_ANSWERS)
def test_an_answer_from_static_configs_and_defaults_is_kafkas(kind):
    assert by_name(map(fact, BEFORE_ANSWERS[kind])) == by_name(GOLDEN[kind])


@pytest.mark.parametrize("kind", AFTER_ANSWERS)
def test_an_answer_with_dynamic_configs_differs_where_kafkas_differs(kind):
    expected = by_name(GOLDEN[kind]) | by_name(GOLDEN[f"dynamic_{kind}"])
    assert by_name(map(fact, AFTER_ANSWERS[kind])) == expected


@pytest.mark.parametrize(("layers", "golden"), [(BEFORE, "default"), (AFTER, "dynamic_default")])
def test_the_default_broker_shows_only_what_was_set_for_all(layers, golden):
    assert [*map(fact, describe_default_broker(layers.dynamic_default))] == GOLDEN[golden]


def test_asking_for_names_gives_those_that_exist():
    answer = describe_topic({}, BEFORE, names=("retention.ms", "nonsense"))
    assert [entry["name"] for entry in answer] == ["retention.ms"]


def test_synonyms_are_left_out_unless_asked_for_and_the_source_stays():
    (entry,) = describe_topic({}, BEFORE, names=("segment.bytes",), include_synonyms=False)
    assert (entry["synonyms"], entry["config_source"]) == ([], 4)


def test_documentation_is_never_given():
    assert {entry["documentation"] for entry in describe_broker(BEFORE)} == {None}


def test_a_logger_is_shown_with_its_level():
    (entry,) = describe_loggers({"root": "INFO", "pykraft.raft": "DEBUG"}, names=("root",))
    assert fact(entry) == ["root", "INFO", False, 6, False, 0, []]
