"""The configs of consumer groups and of client metrics subscriptions."""

from pykraft.configs.definition import (
    ConfigDef,
    ConfigType,
    at_least,
    list_of,
    one_of,
    share_offset_reset,
)

BOOLEAN = ConfigType.BOOLEAN
STRING = ConfigType.STRING
INT = ConfigType.INT
LIST = ConfigType.LIST

_GROUP = (
    ConfigDef("consumer.assignment.interval.ms", INT, 1000, at_least(0)),
    ConfigDef("consumer.heartbeat.interval.ms", INT, 5000, at_least(1)),
    ConfigDef("consumer.session.timeout.ms", INT, 45_000, at_least(1)),
    ConfigDef("share.assignment.interval.ms", INT, 1000, at_least(0)),
    ConfigDef("share.auto.offset.reset", STRING, "latest", share_offset_reset),
    ConfigDef("share.delivery.count.limit", INT, 5, at_least(2)),
    ConfigDef("share.heartbeat.interval.ms", INT, 5000, at_least(1)),
    ConfigDef(
        "share.isolation.level",
        STRING,
        "read_uncommitted",
        one_of("read_committed", "read_uncommitted"),
    ),
    ConfigDef("share.partition.max.record.locks", INT, 2000, at_least(100)),
    ConfigDef("share.record.lock.duration.ms", INT, 30_000, at_least(1000)),
    ConfigDef("share.renew.acknowledge.enable", BOOLEAN, True),
    ConfigDef("share.session.timeout.ms", INT, 45_000, at_least(1)),
    ConfigDef("streams.assignment.interval.ms", INT, 1000, at_least(0)),
    ConfigDef("streams.heartbeat.interval.ms", INT, 5000, at_least(1)),
    ConfigDef("streams.initial.rebalance.delay.ms", INT, 3000, at_least(0)),
    ConfigDef("streams.num.standby.replicas", INT, 0, at_least(0)),
    ConfigDef("streams.session.timeout.ms", INT, 45_000, at_least(1)),
)

_CLIENT_METRICS = (
    ConfigDef("interval.ms", INT, 300_000),
    ConfigDef("match", LIST, (), list_of()),
    ConfigDef("metrics", LIST, (), list_of()),
)

GROUP_CONFIGS: dict[str, ConfigDef] = {config.name: config for config in _GROUP}
CLIENT_METRICS_CONFIGS: dict[str, ConfigDef] = {config.name: config for config in _CLIENT_METRICS}

# Groups' own choices without a broker config behind them.
_WITHOUT_SYNONYM = frozenset(
    ("share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable")
)
# The broker config that gives a group its value when it sets none.
GROUP_SYNONYMS: dict[str, str] = {
    name: f"group.{name}" for name in GROUP_CONFIGS if name not in _WITHOUT_SYNONYM
}
