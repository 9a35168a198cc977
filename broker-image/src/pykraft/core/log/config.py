"""What a topic's configuration says to its logs."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from pykraft.records.compression import CODECS, DEFAULT_LEVELS, NONE

LONG_MAX = 2**63 - 1
INT_MAX = 2**31 - 1
PRODUCER = "producer"
UNCOMPRESSED = "uncompressed"


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Named as in Kafka, dots and dashes as underscores, with Kafka 4.3's defaults."""

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_gzip_level: int = DEFAULT_LEVELS[CODECS["gzip"]]
    compression_lz4_level: int = DEFAULT_LEVELS[CODECS["lz4"]]
    compression_type: str = PRODUCER
    compression_zstd_level: int = DEFAULT_LEVELS[CODECS["zstd"]]
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    # Accepted, without effect: what is written at the end of a file needs no reserved blocks.
    preallocate: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1 << 30
    segment_index_bytes: int = 10 << 20
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False

    @classmethod
    def from_configs(cls, values: Mapping[str, object]) -> "LogConfig":
        """From parsed values keyed by Kafka's names; a name that is not a log's is passed over."""
        chosen: dict[str, object] = {}
        for field in fields(cls):
            value = values.get(field.name.replace("_", "."))
            if value is not None:
                chosen[field.name] = value
        policy = chosen.get("cleanup_policy")
        if isinstance(policy, str):
            chosen["cleanup_policy"] = frozenset(filter(None, policy.replace(" ", "").split(",")))
        elif isinstance(policy, list | tuple | set):
            chosen["cleanup_policy"] = frozenset(policy)
        return cls(**chosen)  # type: ignore[arg-type]

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def target_codec(self) -> int | None:
        """The codec that the topic insists on; None keeps what the producer chose."""
        if self.compression_type == PRODUCER:
            return None
        return NONE if self.compression_type == UNCOMPRESSED else CODECS[self.compression_type]

    @property
    def target_level(self) -> int:
        by_type = {
            "gzip": self.compression_gzip_level,
            "lz4": self.compression_lz4_level,
            "zstd": self.compression_zstd_level,
        }
        return by_type.get(self.compression_type, 0)
