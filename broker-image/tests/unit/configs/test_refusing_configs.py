"""What Kafka 4.3.1 was seen to refuse, we refuse with the same error code."""

import pytest

from pykraft.configs import (
    BrokerLayers,
    Operation,
    ResourceType,
    apply_operations,
    validate_broker_configs,
    validate_client_metrics_configs,
    validate_group_configs,
    validate_logger_operations,
    validate_min_isr_under_elr,
    validate_topic_configs,
)
from pykraft.protocol.errors import ErrorCode, KafkaError

SET, DELETE, APPEND, SUBTRACT = Operation
LAYERS = BrokerLayers({"num.io.threads": "4", "log.retention.hours": "24"})


def refusal(function, *arguments, **named):
    with pytest.raises(KafkaError) as caught:
        function(*arguments, **named)
    return caught.value


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("retention.ms", "abc", "Not a number of type LONG"),
        ("retention.ms", "", "Not a number of type LONG"),
        ("retention.ms", "1_000", "Not a number of type LONG"),
        ("retention.ms", "9" * 5000, "Not a number of type LONG"),
        ("retention.ms", "9223372036854775808", "Not a number of type LONG"),
        ("retention.ms", "-2", "Value must be at least -1"),
        ("segment.bytes", "1", "Value must be at least 1048576"),
        ("segment.bytes", "2147483648", "Not a number of type INT"),
        ("cleanup.policy", "foo", "String must be one of: compact, delete"),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("compression.lz4.level", "99", "Value must be no more than 17"),
        ("preallocate", "yes", "Expected value to be either true or false"),
        ("min.cleanable.dirty.ratio", "abc", "Not a number of type DOUBLE"),
        ("message.timestamp.type", "foo", "String must be one of: CreateTime, LogAppendTime"),
        ("min.insync.replicas", "0", "Value must be at least 1"),
    ],
)
def test_a_bad_topic_value_is_refused_with_its_name_and_what_is_allowed(name, text, why):
    error = refusal(validate_topic_configs, {name: text})
    assert error.code is ErrorCode.INVALID_CONFIG
    assert error.message == f"Invalid value {text} for configuration {name}: {why}"


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"foo": "1"}, "Unknown topic config name: foo"),
        ({"message.format.version": "3.0"}, "Unknown topic config name: message.format.version"),
        ({"retention.ms": None}, "Null value not supported for topic configs: retention.ms"),
        (
            {"cleanup.policy": "compact,"},
            "Configuration 'cleanup.policy' values must not be empty.",
        ),
        (
            {"min.cleanable.dirty.ratio": "2"},
            "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: "
            "Value must be no more than 1",
        ),
        (
            {"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "50"},
            "conflict topic config setting "
            "min.compaction.lag.ms (100) > max.compaction.lag.ms (50)",
        ),
    ],
)
def test_topic_configs_that_make_no_sense_are_refused(configs, message):
    error = refusal(validate_topic_configs, configs)
    assert (error.code, error.message) == (ErrorCode.INVALID_CONFIG, message)


@pytest.mark.parametrize(
    "configs",
    [
        {"remote.storage.enable": "true"},
        {"leader.replication.throttled.replicas": "none"},
        {"leader.replication.throttled.replicas": "*,*"},
    ],
)
def test_other_bad_topic_configs_are_refused(configs):
    assert refusal(validate_topic_configs, configs).code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    "configs",
    [
        {"internal.segment.bytes": "1000"},
        {"cleanup.policy": ""},
        {"min.insync.replicas": "3"},
        {"local.retention.ms": "2000", "retention.ms": "1000"},
        {"leader.replication.throttled.replicas": "*"},
        {"leader.replication.throttled.replicas": ""},
        {"remote.log.copy.disable": "true"},
    ],
)
def test_topic_configs_that_kafka_takes_are_taken(configs):
    validate_topic_configs(configs)


@pytest.mark.parametrize(
    ("configs", "for_all", "message"),
    [
        ({"node.id": "4"}, False, "Cannot update these configs dynamically: [node.id]"),
        (
            {"foo.bar": "1", "num.partitions": "2", "broker.rack": "a"},
            True,
            "Cannot update these configs dynamically: [num.partitions, broker.rack]",
        ),
        (
            {"listeners": "PLAINTEXT://:1"},
            True,
            "Cannot update these configs at default cluster level, "
            "broker id must be specified: [listeners]",
        ),
        (
            {"ssl.keystore.location": "/x"},
            False,
            "These security configs can be dynamically updated only per-listener "
            "using the listener prefix: [ssl.keystore.location]",
        ),
        (
            {"num.io.threads": "0"},
            False,
            "Invalid value 0 for configuration num.io.threads: Value must be at least 1",
        ),
        (
            {"log.retention.ms": "0"},
            True,
            "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
        ),
        (
            {"num.io.threads": "40"},
            False,
            "Invalid value 40 for configuration num.io.threads: "
            "Value must be at least half and at most double the current value 4",
        ),
    ],
)
def test_a_dynamic_broker_config_is_refused_as_an_invalid_request(configs, for_all, message):
    error = refusal(validate_broker_configs, configs, LAYERS, for_all_brokers=for_all)
    assert (error.code, error.message) == (ErrorCode.INVALID_REQUEST, message)


@pytest.mark.parametrize("for_all", [False, True])
@pytest.mark.parametrize(
    "configs",
    [
        {"some.plugin.key": "1"},
        {"log.retention.ms": "-1"},
        {"num.io.threads": "8"},
        {"leader.replication.throttled.rate": "5"},
        {"unclean.leader.election.enable": "true"},
    ],
)
def test_a_dynamic_broker_config_is_taken_for_one_broker_and_for_all(configs, for_all):
    validate_broker_configs(configs, LAYERS, for_all_brokers=for_all)


def test_with_elr_the_min_isr_belongs_to_the_cluster():
    one = refusal(
        validate_min_isr_under_elr, [("min.insync.replicas", SET, "2")], for_all_brokers=False
    )
    gone = refusal(
        validate_min_isr_under_elr, [("min.insync.replicas", DELETE, None)], for_all_brokers=True
    )
    assert {one.code, gone.code} == {ErrorCode.INVALID_CONFIG}
    validate_min_isr_under_elr([("min.insync.replicas", SET, "2")], for_all_brokers=True)


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"foo": "1"}, "Unknown group config name: foo"),
        (
            {"consumer.session.timeout.ms": "1"},
            "consumer.session.timeout.ms must be greater than or equal to "
            "group.consumer.min.session.timeout.ms",
        ),
        (
            {"streams.num.standby.replicas": "9"},
            "streams.num.standby.replicas must be less than or equal to "
            "group.streams.max.standby.replicas",
        ),
    ],
)
def test_a_group_config_outside_the_brokers_bounds_is_refused(configs, message):
    error = refusal(validate_group_configs, configs, LAYERS)
    assert (error.code, error.message) == (ErrorCode.INVALID_CONFIG, message)


def test_a_group_config_within_the_bounds_is_taken():
    validate_group_configs({"consumer.session.timeout.ms": "50000"}, LAYERS)
    validate_group_configs({"share.auto.offset.reset": "by_duration:P1D"}, LAYERS)


@pytest.mark.parametrize(
    ("configs", "code"),
    [
        ({"foo": "1"}, ErrorCode.INVALID_REQUEST),
        ({"interval.ms": "10"}, ErrorCode.INVALID_REQUEST),
        ({"interval.ms": "abc"}, ErrorCode.INVALID_CONFIG),
        ({"match": "foo=bar"}, ErrorCode.INVALID_CONFIG),
        ({"match": "client_id=["}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_bad_client_metrics_config_is_refused(configs, code):
    assert refusal(validate_client_metrics_configs, configs).code is code


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        (("nosuch", SET, "INFO"), ErrorCode.INVALID_CONFIG),
        (("root", SET, "FOO"), ErrorCode.INVALID_CONFIG),
        (("root", DELETE, None), ErrorCode.INVALID_REQUEST),
        (("root", APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_bad_log_level_is_refused(operation, code):
    assert refusal(validate_logger_operations, [operation], ["root"]).code is code


def topic_after(*operations, current=None):
    return apply_operations(ResourceType.TOPIC, current or {}, operations)


def test_appending_to_a_list_that_is_not_set_starts_from_kafkas_default():
    assert topic_after(("cleanup.policy", APPEND, "compact")) == {
        "cleanup.policy": "delete,compact"
    }


def test_appending_what_is_there_and_subtracting_what_is_not_change_nothing():
    current = {"cleanup.policy": "compact"}
    assert topic_after(("cleanup.policy", APPEND, "compact"), current=current) == current
    assert topic_after(("cleanup.policy", SUBTRACT, "delete"), current=current) == current


def test_deleting_what_is_not_set_changes_nothing():
    assert topic_after(("foo", DELETE, None)) == {}


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ([("retention.ms", APPEND, "5")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", SET, "1"), ("retention.ms", SET, "2")], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", 9, "1")], ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_an_operation_that_cannot_be_applied_is_refused(operations, code):
    assert refusal(topic_after, *operations).code is code
