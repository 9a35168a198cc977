"""IncrementalAlterConfigs: what a resource's configs are after set, delete, append and subtract."""

from collections.abc import Iterable, Mapping
from enum import IntEnum

from pykraft.configs.broker import broker_config
from pykraft.configs.definition import ConfigDef, ConfigType, format_value
from pykraft.configs.topic import TOPIC_CONFIGS
from pykraft.protocol.errors import ErrorCode, KafkaError


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


OPERATIONS = frozenset(map(int, Operation))


def apply_operations(
    resource_type: int,
    current: Mapping[str, str],
    operations: Iterable[tuple[str, int, str | None]],
) -> dict[str, str]:
    """All configs of the resource after `operations`, each a name, an operation and a value.

    The result is not yet valid: give it to `validate_*`. Raises KafkaError.
    """
    result = dict(current)
    seen: set[str] = set()
    for name, operation, value in operations:
        if name in seen:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
        seen.add(name)
        _apply(resource_type, result, name, operation, value)
    return result


def _apply(
    resource_type: int, configs: dict[str, str], name: str, operation: int, value: str | None
) -> None:
    if operation not in OPERATIONS:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"Unknown operation {operation} for {name}"
        )
    if operation == Operation.DELETE:
        configs.pop(name, None)
        return
    if value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {name}")
    if operation == Operation.SET:
        configs[name] = value
        return
    entries = _entries_to_change(resource_type, configs, name, Operation(operation))
    for entry in value.split(","):
        if operation == Operation.APPEND and entry not in entries:
            entries.append(entry)
        elif operation == Operation.SUBTRACT and entry in entries:
            entries.remove(entry)
    configs[name] = ",".join(entries)


def _entries_to_change(
    resource_type: int, configs: Mapping[str, str], name: str, operation: Operation
) -> list[str]:
    config = _definition(resource_type, name)
    if config is None or config.type is not ConfigType.LIST:
        message = f"Can't {operation.name} to key {name} because its type is not LIST."
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)
    # A list that is not set starts from Kafka's default, not from what the broker's file says.
    text = configs.get(name, format_value(config.default)) or ""
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _definition(resource_type: int, name: str) -> ConfigDef | None:
    # Kafka knows the lists of topics and brokers only; those of subscriptions can just be set.
    if resource_type == ResourceType.TOPIC:
        return TOPIC_CONFIGS.get(name)
    return broker_config(name) if resource_type == ResourceType.BROKER else None
