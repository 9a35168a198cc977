"""Which value counts when several could."""

import pytest

from pykraft.configs import (
    BROKER_CONFIGS,
    TOPIC_CONFIGS,
    BrokerLayers,
    effective_broker_configs,
    effective_topic_configs,
    format_value,
    parse,
)


def topic(name, static=None, default=None, broker=None, overrides=None):
    layers = BrokerLayers(static or {}, default or {}, broker or {})
    return effective_topic_configs(overrides or {}, layers)[name]


def test_without_any_setting_every_topic_config_has_kafkas_default():
    values = effective_topic_configs({}, BrokerLayers())
    assert values == {name: config.default for name, config in TOPIC_CONFIGS.items()}


@pytest.mark.parametrize(
    ("static", "expected"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "1"}, 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, 120_000),
        ({"log.retention.minutes": "2", "log.retention.ms": "5"}, 5),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-7"}, -1),
    ],
)
def test_retention_goes_by_milliseconds_then_minutes_then_hours(static, expected):
    assert topic("retention.ms", static) == expected


def test_rolling_by_hours_is_converted_and_milliseconds_win():
    assert topic("segment.ms", {"log.roll.hours": "2"}) == 7_200_000
    assert topic("segment.ms", {"log.roll.hours": "2", "log.roll.ms": "9"}) == 9


def test_flushing_by_time_falls_back_to_the_schedulers_interval():
    assert topic("flush.ms", {"log.flush.scheduler.interval.ms": "50"}) == 50


def test_layers_count_from_the_topic_down_to_the_file():
    layers = {
        "static": {"message.max.bytes": "1"},
        "default": {"message.max.bytes": "2"},
        "broker": {"message.max.bytes": "3"},
    }
    assert topic("max.message.bytes", **layers, overrides={"max.message.bytes": "4"}) == 4
    assert topic("max.message.bytes", **layers) == 3
    del layers["broker"]
    assert topic("max.message.bytes", **layers) == 2


def test_a_dynamic_value_hides_its_synonyms_in_the_file():
    layers = BrokerLayers({"log.retention.hours": "24"}, {"log.retention.ms": "5"})
    values = effective_broker_configs(layers)
    assert (values["log.retention.ms"], values["log.retention.hours"]) == (5, 168)


def test_a_dynamic_value_that_cannot_be_read_is_passed_over():
    assert topic("max.message.bytes", {"message.max.bytes": "7"}, {"message.max.bytes": "x"}) == 7
    assert topic("retention.ms", overrides={"retention.ms": "x"}) == 604_800_000


@pytest.mark.parametrize(
    ("name", "text", "printed"),
    [
        ("cleanup.policy", "delete,delete", "delete"),
        ("cleanup.policy", "", ""),
        ("cleanup.policy", " delete , compact ", "delete,compact"),
        ("min.cleanable.dirty.ratio", "0.5f", "0.5"),
        ("min.cleanable.dirty.ratio", "1e-1", "0.1"),
        ("min.cleanable.dirty.ratio", "NaN", "NaN"),
        ("min.cleanable.dirty.ratio", "1", "1.0"),
        ("min.cleanable.dirty.ratio", "1e-5", "1.0E-5"),
        ("min.cleanable.dirty.ratio", "0.00012", "1.2E-4"),
        ("min.cleanable.dirty.ratio", "0.001", "0.001"),
        ("preallocate", " TRUE ", "true"),
        ("retention.ms", "\N{ARABIC-INDIC DIGIT THREE}", "3"),
        ("retention.ms", "+5", "5"),
        ("compression.type", " gzip ", "gzip"),
        ("leader.replication.throttled.replicas", "0:1, 0:1", "0:1,0:1"),
        ("leader.replication.throttled.replicas", "0:1,", "0:1,"),
    ],
)
def test_a_text_is_read_and_printed_as_kafka_does(name, text, printed):
    assert format_value(parse(TOPIC_CONFIGS[name], text)) == printed


def test_the_largest_double_is_printed_as_java_does():
    default = BROKER_CONFIGS["log.cleaner.io.max.bytes.per.second"].default
    assert format_value(default) == "1.7976931348623157E308"


def test_every_default_is_a_value_that_its_own_config_allows():
    for config in (*TOPIC_CONFIGS.values(), *BROKER_CONFIGS.values()):
        if config.default is not None:
            assert parse(config, format_value(config.default)) == config.default
