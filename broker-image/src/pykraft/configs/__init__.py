"""Kafka's configs: which exist, what they may be, and which value counts.

This package is at the bottom of the layers, next to the ids: it reads no file and no clock.
"""

from pykraft.configs.broker import BROKER_CONFIGS, DYNAMIC_ONLY_CONFIGS, broker_config
from pykraft.configs.definition import (
    ConfigDef,
    ConfigError,
    ConfigSource,
    ConfigType,
    UpdateMode,
    Value,
    format_value,
    parse,
)
from pykraft.configs.group import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS
from pykraft.configs.operations import Operation, ResourceType, apply_operations
from pykraft.configs.resolution import (
    BrokerLayers,
    created_topic_configs,
    describe_broker,
    describe_client_metrics,
    describe_default_broker,
    describe_group,
    describe_loggers,
    describe_topic,
    effective_broker_configs,
    effective_topic_configs,
)
from pykraft.configs.topic import TOPIC_CONFIGS
from pykraft.configs.validation import (
    validate_broker_configs,
    validate_client_metrics_configs,
    validate_group_configs,
    validate_logger_operations,
    validate_min_isr_under_elr,
    validate_topic_configs,
)

__all__ = [
    "BROKER_CONFIGS",
    "CLIENT_METRICS_CONFIGS",
    "DYNAMIC_ONLY_CONFIGS",
    "GROUP_CONFIGS",
    "TOPIC_CONFIGS",
    "BrokerLayers",
    "ConfigDef",
    "ConfigError",
    "ConfigSource",
    "ConfigType",
    "Operation",
    "ResourceType",
    "UpdateMode",
    "Value",
    "apply_operations",
    "broker_config",
    "created_topic_configs",
    "describe_broker",
    "describe_client_metrics",
    "describe_default_broker",
    "describe_group",
    "describe_loggers",
    "describe_topic",
    "effective_broker_configs",
    "effective_topic_configs",
    "format_value",
    "parse",
    "validate_broker_configs",
    "validate_client_metrics_configs",
    "validate_group_configs",
    "validate_logger_operations",
    "validate_min_isr_under_elr",
    "validate_topic_configs",
]
