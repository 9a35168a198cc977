"""What Kafka refuses, resource by resource, with its error codes."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pykraft.configs.broker import (
    BROKER_CONFIGS,
    LISTENER_SECURITY_CONFIGS,
    base_of_listener_config,
    broker_config,
)
from pykraft.configs.definition import ConfigDef, ConfigError, UpdateMode, Value, parse
from pykraft.configs.group import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS
from pykraft.configs.operations import OPERATIONS, Operation
from pykraft.configs.resolution import (
    BrokerLayers,
    broker_value,
    effective_broker_configs,
    effective_topic_configs,
)
from pykraft.configs.topic import TOPIC_CONFIGS
from pykraft.protocol.errors import ErrorCode, KafkaError

LOG_LEVELS = ("DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN")

_MIN_ISR = "min.insync.replicas"


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


# Topics.


def validate_topic_configs(
    overrides: Mapping[str, str | None], layers: BrokerLayers | None = None
) -> None:
    """Raises KafkaError(INVALID_CONFIG) unless a topic may have these configs."""
    set_values: dict[str, str] = {}
    for name in sorted(overrides):
        if name not in TOPIC_CONFIGS:
            raise _invalid(f"Unknown topic config name: {name}")
    for name, text in overrides.items():
        if text is None:
            raise _invalid(f"Null value not supported for topic configs: {name}")
        _parse_or_refuse(TOPIC_CONFIGS[name], text, ErrorCode.INVALID_CONFIG)
        set_values[name] = text
    _check_topic_as_a_whole(effective_topic_configs(set_values, layers or BrokerLayers()))


def _check_topic_as_a_whole(values: Mapping[str, Value | None]) -> None:
    least, most = _number(values, "min.compaction.lag.ms"), _number(values, "max.compaction.lag.ms")
    if least > most:
        raise _invalid(
            "conflict topic config setting "
            f"min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
        )
    if values["remote.storage.enable"]:
        raise _invalid(
            "Tiered Storage functionality is disabled in the broker: "
            "remote.storage.enable can only be false"
        )


def _number(values: Mapping[str, Value | None], name: str) -> int:
    value = values[name]
    assert isinstance(value, int)
    return value


def _parse_or_refuse(config: ConfigDef, text: str, code: ErrorCode) -> Value:
    try:
        return parse(config, text)
    except ConfigError as error:
        raise KafkaError(code, str(error)) from None


# Brokers.


def validate_broker_configs(
    changed: Mapping[str, str], layers: BrokerLayers, *, for_all_brokers: bool
) -> None:
    """Raises KafkaError unless `changed` may become the dynamic configs of the resource.

    `changed` holds all dynamic configs that the broker (or, `for_all_brokers`, the default broker
    resource) would have; `layers` is what counts now.
    """
    names = list(changed)
    # Names that nobody defined are allowed: plug-ins have configs of their own.
    _refuse_names(
        (name for name in names if _mode(name) is UpdateMode.READ_ONLY),
        "Cannot update these configs dynamically",
    )
    _refuse_names(
        (name for name in names if name in LISTENER_SECURITY_CONFIGS),
        "These security configs can be dynamically updated only per-listener "
        "using the listener prefix",
    )
    if for_all_brokers:
        _refuse_names(
            (name for name in names if _mode(name) is UpdateMode.PER_BROKER),
            "Cannot update these configs at default cluster level, broker id must be specified",
        )
    for name, text in changed.items():
        config = broker_config(name)
        if config is not None:
            _parse_or_refuse(config, text, ErrorCode.INVALID_REQUEST)
    new = (
        replace(layers, dynamic_default=changed)
        if for_all_brokers
        else replace(layers, dynamic_broker=changed)
    )
    _check_change(effective_broker_configs(layers), effective_broker_configs(new))


def _mode(name: str) -> UpdateMode | None:
    """How `name` may change; None for a name that nobody defined."""
    config = broker_config(name)
    if config is None:
        return None
    # With a listener's prefix, only what concerns one broker's listener has a meaning.
    return UpdateMode.PER_BROKER if base_of_listener_config(name) else config.mode


def _refuse_names(names: Iterable[str], why: str) -> None:
    refused = list(names)
    if refused:
        raise _refused(f"{why}: [{', '.join(refused)}]")


_THREAD_COUNTS = (
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)
# Sockets are opened at the start and stay; Kafka can open and close them while it runs.
_FIXED_AT_START = ("listeners", "listener.security.protocol.map")


def _check_change(before: Mapping[str, Value | None], after: Mapping[str, Value | None]) -> None:
    for name in _FIXED_AT_START:
        if before[name] != after[name]:
            raise _refused(f"{name} can only change with a restart of this broker")
    for name in _THREAD_COUNTS:
        old, new = _number(before, name), _number(after, name)
        if new != old and not old / 2 <= new <= old * 2:
            limits = f"at least half and at most double the current value {old}"
            raise _refused(f"Invalid value {new} for configuration {name}: Value must be {limits}")
    broken = broken_rule(after)
    if broken is not None:
        raise _refused(broken)


def broken_rule(values: Mapping[str, Value | None]) -> str | None:
    """The first rule among several broker configs that does not hold; None when all do."""
    retention = values["log.retention.ms"], values["log.retention.minutes"]
    times = (*retention, values["log.retention.hours"])
    if next(value for value in times if value is not None) == 0:
        return "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"
    for name, least in (("log.roll.ms", 1), ("log.roll.jitter.ms", 0)):
        value = values[name]
        if isinstance(value, int) and value < least:
            return f"{name} must be greater than or equal to {least}"
    if values["max.connections.per.ip"] == 0 and not values["max.connections.per.ip.overrides"]:
        return "max.connections.per.ip can be 0 only with max.connections.per.ip.overrides"
    if _number(values, "replica.fetch.wait.max.ms") > _number(values, "replica.socket.timeout.ms"):
        return "replica.socket.timeout.ms must be at least replica.fetch.wait.max.ms"
    if _number(values, "replica.fetch.wait.max.ms") > _number(values, "replica.lag.time.max.ms"):
        return "replica.lag.time.max.ms must be at least replica.fetch.wait.max.ms"
    queued = _number(values, "queued.max.request.bytes")
    if 0 < queued < _number(values, "socket.request.max.bytes"):
        return "queued.max.request.bytes must be at least socket.request.max.bytes, or -1"
    return None


def validate_min_isr_under_elr(
    operations: Iterable[tuple[str, int, str | None]], *, for_all_brokers: bool
) -> None:
    """With eligible leader replicas (KIP-966), min.insync.replicas is the cluster's to set.

    One broker's own value is refused, and the cluster's may change but not go.
    """
    for name, operation, _ in operations:
        if name != _MIN_ISR:
            continue
        if not for_all_brokers:
            raise _invalid(f"Broker-level {name} cannot be altered while ELR is enabled.")
        if operation == Operation.DELETE:
            raise _invalid(f"Cluster-level {name} cannot be removed while ELR is enabled.")


# Groups and client metrics subscriptions.


def _group_bound(name: str, extreme: str) -> str | None:
    """The broker config that bounds a group's choice: group.consumer.min.session.timeout.ms."""
    kind, _, rest = name.partition(".")
    bound = f"group.{kind}.{extreme}.{rest.removeprefix('num.')}"
    return bound if bound in BROKER_CONFIGS else None


def validate_group_configs(configs: Mapping[str, str], layers: BrokerLayers) -> None:
    effective = layers.effective()
    for name, text in configs.items():
        if name not in GROUP_CONFIGS:
            raise _invalid(f"Unknown group config name: {name}")
        value = _parse_or_refuse(GROUP_CONFIGS[name], text, ErrorCode.INVALID_CONFIG)
        least, most = _group_bound(name, "min"), _group_bound(name, "max")
        if least is not None and _exceeds(broker_value(least, effective), value):
            raise _invalid(f"{name} must be greater than or equal to {least}")
        if most is not None and _exceeds(value, broker_value(most, effective)):
            raise _invalid(f"{name} must be less than or equal to {most}")


def _exceeds(left: Value | None, right: Value | None) -> bool:
    assert isinstance(left, int)
    assert isinstance(right, int)
    return left > right


_MATCH_KEYS = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


def validate_client_metrics_configs(configs: Mapping[str, str]) -> None:
    for name, text in configs.items():
        if name not in CLIENT_METRICS_CONFIGS:
            raise _refused(f"Unknown client metrics configuration: {name}")
        config = CLIENT_METRICS_CONFIGS[name]
        value = _parse_or_refuse(config, text, ErrorCode.INVALID_CONFIG)
        if name == "interval.ms" and value not in range(100, 3_600_001):
            raise _refused(
                f"Invalid value {value} for {name}, interval must be between 100 and 3600000"
            )
        if name == "match":
            _check_patterns(value)


def _check_patterns(patterns: Value) -> None:
    assert isinstance(patterns, tuple)
    for pattern in patterns:
        key, equals, expression = pattern.partition("=")
        if key.strip() not in _MATCH_KEYS or not equals or not _compiles(expression):
            raise _invalid(f"Illegal client matching pattern: {pattern}")


def _compiles(expression: str) -> bool:
    try:
        re.compile(expression)
    except re.error:
        return False
    return True


# Loggers.


def validate_logger_operations(
    operations: Iterable[tuple[str, int, str | None]], loggers: Iterable[str]
) -> None:
    known = frozenset(loggers)
    for name, operation, level in operations:
        if operation not in (Operation.SET, Operation.DELETE):
            label = Operation(operation).name if operation in OPERATIONS else operation
            raise _refused(f"{label} operation is not allowed for the BROKER_LOGGER resource")
        if name not in known:
            raise _invalid(f"Logger {name} does not exist!")
        if operation == Operation.SET and level not in LOG_LEVELS:
            raise _invalid(
                f"Cannot set the log level of {name} to {level} as it is not a supported "
                f"log level. Valid log levels are {', '.join(LOG_LEVELS)}"
            )
        if operation == Operation.DELETE and name == "root":
            raise _refused("Removing the log level of the root logger is not allowed")
