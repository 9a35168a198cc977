"""The requests about configs, as observed of Apache Kafka 4.3.1."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from asked_broker import NODE, AskedBroker

from pykraft import configs
from pykraft.handlers import configs as config_requests
from pykraft.protocol.decoding import Message
from pykraft.protocol.errors import ErrorCode
from pykraft.protocol.versions import ApiKey

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND = 0, 1, 2


def describe(
    node: AskedBroker,
    resource_type: int,
    name: str,
    *keys: str,
    version: int = 4,
    synonyms: bool = False,
) -> Message:
    resource = {
        "resource_type": resource_type,
        "resource_name": name,
        "configuration_keys": list(keys) or None,
    }
    answer = node.ask(
        ApiKey.DESCRIBE_CONFIGS, version, resources=[resource], include_synonyms=synonyms
    )
    result: Message
    (result,) = answer.results
    assert (result.resource_type, result.resource_name) == (resource_type, name)
    return result


def values(result: Message) -> dict[str, tuple[str | None, int]]:
    return {entry.name: (entry.value, entry.config_source) for entry in result.configs}


def alter(
    node: AskedBroker,
    *resources: tuple[int, str, list[tuple[str, int, str | None]]],
    **options: Any,
) -> list[tuple[int, str, int]]:
    answer = node.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        resources=[
            {
                "resource_type": kind,
                "resource_name": name,
                "configs": [
                    {"name": key, "config_operation": operation, "value": value}
                    for key, operation, value in changes
                ],
            }
            for kind, name, changes in resources
        ],
        **options,
    )
    return [(r.resource_type, r.resource_name, r.error_code) for r in answer.responses]


# DescribeConfigs


@pytest.mark.parametrize("version", range(1, 5))
def test_a_topic_is_described_with_all_its_configs(node: AskedBroker, version: int) -> None:
    node.create("a", retention_ms="777")
    result = describe(node, TOPIC, "a", version=version)
    assert (result.error_code, result.error_message, len(result.configs)) == (0, "", 33)
    assert values(result)["retention.ms"] == ("777", 1)
    assert values(result)["segment.bytes"] == ("1073741824", 5)


def test_only_what_is_named_is_described_and_nonsense_is_left_out(node: AskedBroker) -> None:
    node.create("a")
    result = describe(node, TOPIC, "a", "retention.ms", "nonsense")
    assert values(result) == {"retention.ms": ("604800000", 5)}


def test_synonyms_are_told_when_asked_for(node: AskedBroker) -> None:
    node.create("a", cleanup_policy="compact")
    (silent,) = describe(node, TOPIC, "a", "cleanup.policy").configs
    assert silent.synonyms == []
    (entry,) = describe(node, TOPIC, "a", "cleanup.policy", synonyms=True).configs
    assert [(s.name, s.value, s.source) for s in entry.synonyms] == [
        ("cleanup.policy", "compact", 1),
        ("log.cleanup.policy", "delete", 5),
    ]


def test_this_broker_is_described_and_the_default_of_all(node: AskedBroker) -> None:
    alter(node, (BROKER, "", [("log.retention.ms", SET, "6000000")]))
    own = values(describe(node, BROKER, str(NODE)))
    assert len(own) == 340
    assert own["log.retention.ms"] == ("6000000", 3)
    assert own["node.id"] == ("1", 4)
    assert values(describe(node, BROKER, "")) == {"log.retention.ms": ("6000000", 3)}


def test_dynamic_defaults_reach_topics(node: AskedBroker) -> None:
    node.create("a")
    alter(node, (BROKER, "", [("log.retention.ms", SET, "6000000")]))
    assert values(describe(node, TOPIC, "a", "retention.ms")) == {"retention.ms": ("6000000", 3)}


def test_groups_and_metrics_subscriptions_need_not_exist(node: AskedBroker) -> None:
    assert len(describe(node, GROUP, "g").configs) == 17
    assert values(describe(node, CLIENT_METRICS, "m")) == {
        "interval.ms": ("300000", 5),
        "match": ("", 5),
        "metrics": ("", 5),
    }
    alter(node, (CLIENT_METRICS, "m", [("interval.ms", SET, "1000")]))
    assert values(describe(node, CLIENT_METRICS, "m"))["interval.ms"] == ("1000", 7)


@pytest.mark.parametrize(
    ("resource_type", "name", "expected"),
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "bad name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (LOGGER, "", ErrorCode.INVALID_REQUEST),
        (LOGGER, "2", ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (3, "x", ErrorCode.INVALID_REQUEST),
        (0, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_described_says_why(
    node: AskedBroker, resource_type: int, name: str, expected: ErrorCode
) -> None:
    result = describe(node, resource_type, name)
    assert (result.error_code, result.configs) == (expected, [])
    assert node.errors(ApiKey.DESCRIBE_CONFIGS) == {expected: 1}


def describe_all(node: AskedBroker, *resources: tuple[int, str]) -> list[tuple[int, int]]:
    """The error and how many configs are told, of each."""
    asked = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": None}
        for kind, name in resources
    ]
    answer = node.ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=asked)
    return [(result.error_code, len(result.configs)) for result in answer.results]


def test_what_is_alike_is_worked_out_once(
    node: AskedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.create("own", retention_ms="5")
    for topic in ("a", "b"):
        node.create(topic)
    worked_out = []
    real = configs.describe_topic

    def counting(*args: Any) -> list[Any]:
        worked_out.append(args[0])
        return real(*args)

    monkeypatch.setattr(configs, "describe_topic", counting)
    told = describe_all(node, (TOPIC, "a"), (TOPIC, "own"), (TOPIC, "b"), (TOPIC, "a"))
    assert len({count for _, count in told}) == 1
    assert worked_out == [{}, {"retention.ms": "5"}]


def test_an_answer_has_a_bound_and_what_is_beyond_is_refused(
    node: AskedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.create("t")
    ((_, all_of_topic),) = describe_all(node, (TOPIC, "t"))
    monkeypatch.setattr(config_requests, "ENTRIES_MAX", 2 * all_of_topic)
    told = describe_all(node, *[(TOPIC, "t")] * 3, (GROUP, "g"))
    assert told[:2] == [(ErrorCode.NONE, all_of_topic)] * 2
    assert told[2:] == [(ErrorCode.INVALID_REQUEST, 0)] * 2


def test_a_request_has_a_bound_and_what_is_beyond_is_refused(
    node: AskedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_requests, "RESOURCES_MAX", 1)
    told = describe_all(node, (TOPIC, "nope"), (TOPIC, "nope"))
    assert told == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0), (ErrorCode.INVALID_REQUEST, 0)]


def test_a_large_answer_is_encoded_by_a_worker(
    node: AskedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = describe_all(node, (BROKER, "1"))
    jobs = []
    real = node.in_worker

    def counting(*args: Any) -> None:
        jobs.append(args)
        real(*args)

    monkeypatch.setattr(node, "in_worker", counting)
    assert describe_all(node, (BROKER, "1")) == plain
    assert not jobs
    monkeypatch.setattr(config_requests, "ENTRIES_AT_ONCE_MAX", 10)
    assert describe_all(node, (BROKER, "1")) == plain
    assert len(jobs) == 1


def test_one_unknown_type_spoils_the_whole_request(node: AskedBroker) -> None:
    node.create("a")
    resources = [
        {"resource_type": TOPIC, "resource_name": "a", "configuration_keys": None},
        {"resource_type": 3, "resource_name": "x", "configuration_keys": None},
    ]
    answer = node.ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=resources)
    assert [r.error_code for r in answer.results] == [ErrorCode.INVALID_REQUEST] * 2


# Altering


def test_resources_are_altered_each_on_its_own(node: AskedBroker) -> None:
    node.create("a")
    assert alter(
        node,
        (TOPIC, "a", [("retention.ms", SET, "5")]),
        (TOPIC, "nope", [("retention.ms", SET, "5")]),
        (BROKER, str(NODE), [("node.id", SET, "5")]),
    ) == [
        (TOPIC, "a", ErrorCode.NONE),
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, str(NODE), ErrorCode.INVALID_REQUEST),
    ]
    assert node.broker.image.configs == {(TOPIC, "a"): {"retention.ms": "5"}}
    assert node.errors(ApiKey.INCREMENTAL_ALTER_CONFIGS) == {3: 1, 42: 1}


def test_the_older_request_replaces_all_configs(node: AskedBroker) -> None:
    node.create("a", retention_ms="5")
    resource = {
        "resource_type": TOPIC,
        "resource_name": "a",
        "configs": [{"name": "segment.ms", "value": "6"}],
    }
    answer = node.ask(ApiKey.ALTER_CONFIGS, 2, resources=[resource])
    assert [r.error_code for r in answer.responses] == [ErrorCode.NONE]
    assert node.broker.image.configs == {(TOPIC, "a"): {"segment.ms": "6"}}


def test_the_older_request_knows_no_loggers(node: AskedBroker) -> None:
    resource = {"resource_type": LOGGER, "resource_name": str(NODE), "configs": []}
    answer = node.ask(ApiKey.ALTER_CONFIGS, 2, resources=[resource])
    assert [r.error_code for r in answer.responses] == [ErrorCode.INVALID_REQUEST]


# Loggers


@pytest.fixture
def chatty() -> Iterator[logging.Logger]:
    logger = logging.getLogger("pykraft.chatty")
    yield logger
    logger.setLevel(logging.NOTSET)


def test_a_loggers_level_is_set_shown_and_unset(node: AskedBroker, chatty: logging.Logger) -> None:
    me = str(NODE)
    assert alter(node, (LOGGER, me, [(chatty.name, SET, "FATAL")])) == [(LOGGER, me, 0)]
    assert chatty.level == logging.CRITICAL
    assert values(describe(node, LOGGER, me, chatty.name)) == {chatty.name: ("FATAL", 6)}
    assert alter(node, (LOGGER, me, [(chatty.name, DELETE, None)])) == [(LOGGER, me, 0)]
    assert chatty.level == logging.NOTSET
    assert node.submitted == 2
    assert node.broker.image.configs == {}


def test_a_level_that_is_only_validated_stays(node: AskedBroker, chatty: logging.Logger) -> None:
    alter(node, (LOGGER, str(NODE), [(chatty.name, SET, "DEBUG")]), validate_only=True)
    assert chatty.level == logging.NOTSET


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("1", ("root", SET, "LOUD"), ErrorCode.INVALID_CONFIG),
        ("1", ("no.such.logger", SET, "INFO"), ErrorCode.INVALID_CONFIG),
        ("1", ("root", DELETE, None), ErrorCode.INVALID_REQUEST),
        ("1", ("root", APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
        ("2", ("root", SET, "INFO"), ErrorCode.INVALID_REQUEST),
        ("", ("root", SET, "INFO"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_levels_that_make_no_sense_are_refused(
    node: AskedBroker, name: str, change: tuple[str, int, str | None], expected: ErrorCode
) -> None:
    before = logging.getLogger().level
    assert alter(node, (LOGGER, name, [change])) == [(LOGGER, name, expected)]
    assert logging.getLogger().level == before


def test_answers_come_in_the_order_of_the_request(
    node: AskedBroker, chatty: logging.Logger
) -> None:
    node.create("a")
    level = [(chatty.name, SET, "INFO")]
    assert alter(
        node,
        (TOPIC, "a", [("retention.ms", SET, "5")]),
        (LOGGER, "1", level),  # type: ignore[arg-type]
        (TOPIC, "nope", []),
        (LOGGER, "2", level),  # type: ignore[arg-type]
    ) == [(TOPIC, "a", 0), (LOGGER, "1", 0), (TOPIC, "nope", 3), (LOGGER, "2", 42)]


def test_a_resource_that_appears_twice_is_refused_twice(
    node: AskedBroker, chatty: logging.Logger
) -> None:
    twice: tuple[int, str, list[tuple[str, int, str | None]]]
    twice = (LOGGER, "1", [(chatty.name, SET, "INFO")])
    assert alter(node, twice, twice) == [(LOGGER, "1", ErrorCode.INVALID_REQUEST)] * 2
    assert chatty.level == logging.NOTSET


# ListConfigResources


def listed(node: AskedBroker, *types: int, version: int = 1) -> list[tuple[str, int]]:
    answer = node.ask(ApiKey.LIST_CONFIG_RESOURCES, version, resource_types=list(types))
    assert answer.error_code == ErrorCode.NONE
    return [(r.resource_name, r.resource_type) for r in answer.config_resources]


def test_resources_are_listed_by_type(node: AskedBroker) -> None:
    node.create("a")
    alter(
        node,
        (CLIENT_METRICS, "m", [("interval.ms", SET, "1000")]),
        (GROUP, "g", [("consumer.session.timeout.ms", SET, "50000")]),
    )
    assert listed(node, TOPIC) == [("a", TOPIC)]
    assert listed(node, BROKER, LOGGER) == [("1", BROKER), ("1", LOGGER)]
    assert listed(node) == [
        ("g", GROUP),
        ("m", CLIENT_METRICS),
        ("1", LOGGER),
        ("1", BROKER),
        ("a", TOPIC),
    ]
    # Version 0 knows subscriptions alone, and no types.
    assert [name for name, _ in listed(node, version=0)] == ["m"]


def test_a_type_that_has_no_resources_is_refused(node: AskedBroker) -> None:
    answer = node.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=[TOPIC, 3])
    assert (answer.error_code, answer.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])
