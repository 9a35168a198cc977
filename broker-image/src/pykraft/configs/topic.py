"""The topic configs of Apache Kafka 4.3, and the broker configs that stand behind them."""

from pykraft.configs.definition import (
    LONG_MAX,
    ConfigDef,
    ConfigType,
    at_least,
    between,
    gzip_level,
    list_of,
    throttled_replicas,
)
from pykraft.configs.server import COMPRESSION_TYPES, TIMESTAMP_TYPES

BOOLEAN = ConfigType.BOOLEAN
STRING = ConfigType.STRING
INT = ConfigType.INT
LONG = ConfigType.LONG
DOUBLE = ConfigType.DOUBLE
LIST = ConfigType.LIST

_TOPIC = (
    ConfigDef("cleanup.policy", LIST, ("delete",), list_of("compact", "delete")),
    ConfigDef("compression.gzip.level", INT, -1, gzip_level),
    ConfigDef("compression.lz4.level", INT, 9, between(1, 17)),
    ConfigDef("compression.type", STRING, "producer", COMPRESSION_TYPES),
    ConfigDef("compression.zstd.level", INT, 3, between(-131_072, 22)),
    ConfigDef("delete.retention.ms", LONG, 86_400_000, at_least(0)),
    ConfigDef("file.delete.delay.ms", LONG, 60_000, at_least(0)),
    ConfigDef("flush.messages", LONG, LONG_MAX, at_least(1)),
    ConfigDef("flush.ms", LONG, LONG_MAX, at_least(0)),
    ConfigDef("follower.replication.throttled.replicas", LIST, (), throttled_replicas),
    ConfigDef("index.interval.bytes", INT, 4096, at_least(0)),
    ConfigDef("internal.segment.bytes", INT, None, internal=True),
    ConfigDef("leader.replication.throttled.replicas", LIST, (), throttled_replicas),
    ConfigDef("local.retention.bytes", LONG, -2, at_least(-2)),
    ConfigDef("local.retention.ms", LONG, -2, at_least(-2)),
    ConfigDef("max.compaction.lag.ms", LONG, LONG_MAX, at_least(1)),
    ConfigDef("max.message.bytes", INT, 1_048_588, at_least(0)),
    ConfigDef("message.timestamp.after.max.ms", LONG, 3_600_000, at_least(0)),
    ConfigDef("message.timestamp.before.max.ms", LONG, LONG_MAX, at_least(0)),
    ConfigDef("message.timestamp.type", STRING, "CreateTime", TIMESTAMP_TYPES),
    ConfigDef("min.cleanable.dirty.ratio", DOUBLE, 0.5, between(0, 1)),
    ConfigDef("min.compaction.lag.ms", LONG, 0, at_least(0)),
    ConfigDef("min.insync.replicas", INT, 1, at_least(1)),
    ConfigDef("preallocate", BOOLEAN, False),
    ConfigDef("remote.log.copy.disable", BOOLEAN, False),
    ConfigDef("remote.log.delete.on.disable", BOOLEAN, False),
    ConfigDef("remote.storage.enable", BOOLEAN, False),
    ConfigDef("retention.bytes", LONG, -1),
    ConfigDef("retention.ms", LONG, 604_800_000, at_least(-1)),
    ConfigDef("segment.bytes", INT, 1_073_741_824, at_least(1_048_576)),
    ConfigDef("segment.index.bytes", INT, 10_485_760, at_least(4)),
    ConfigDef("segment.jitter.ms", LONG, 0, at_least(0)),
    ConfigDef("segment.ms", LONG, 604_800_000, at_least(1)),
    ConfigDef("unclean.leader.election.enable", BOOLEAN, False),
)

# The broker configs that give a topic its value when it sets none; the first that is set counts.
TOPIC_SYNONYMS: dict[str, tuple[str, ...]] = {
    "cleanup.policy": ("log.cleanup.policy",),
    "compression.gzip.level": ("compression.gzip.level",),
    "compression.lz4.level": ("compression.lz4.level",),
    "compression.type": ("compression.type",),
    "compression.zstd.level": ("compression.zstd.level",),
    "delete.retention.ms": ("log.cleaner.delete.retention.ms",),
    "file.delete.delay.ms": ("log.segment.delete.delay.ms",),
    "flush.messages": ("log.flush.interval.messages",),
    "flush.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    "index.interval.bytes": ("log.index.interval.bytes",),
    "local.retention.bytes": ("log.local.retention.bytes",),
    "local.retention.ms": ("log.local.retention.ms",),
    "max.compaction.lag.ms": ("log.cleaner.max.compaction.lag.ms",),
    "max.message.bytes": ("message.max.bytes",),
    "message.timestamp.after.max.ms": ("log.message.timestamp.after.max.ms",),
    "message.timestamp.before.max.ms": ("log.message.timestamp.before.max.ms",),
    "message.timestamp.type": ("log.message.timestamp.type",),
    "min.cleanable.dirty.ratio": ("log.cleaner.min.cleanable.ratio",),
    "min.compaction.lag.ms": ("log.cleaner.min.compaction.lag.ms",),
    "min.insync.replicas": ("min.insync.replicas",),
    "preallocate": ("log.preallocate",),
    "retention.bytes": ("log.retention.bytes",),
    "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "segment.bytes": ("log.segment.bytes",),
    "segment.index.bytes": ("log.index.size.max.bytes",),
    "segment.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    "segment.ms": ("log.roll.ms", "log.roll.hours"),
    "unclean.leader.election.enable": ("unclean.leader.election.enable",),
}

# Broker configs in hours or minutes, and what makes milliseconds of them.
MS_PER_UNIT = {
    "log.retention.minutes": 60_000,
    "log.retention.hours": 3_600_000,
    "log.roll.hours": 3_600_000,
    "log.roll.jitter.hours": 3_600_000,
}

TOPIC_CONFIGS: dict[str, ConfigDef] = {config.name: config for config in _TOPIC}
