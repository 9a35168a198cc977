"""What an operation decides: records to write, and the reply once they are committed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pykraft.protocol.metadata_records import MetadataRecord


@dataclass(frozen=True, slots=True)
class Outcome:
    records: list[MetadataRecord] = field(default_factory=list)
    # The body of the response, as encode_response takes it.
    reply: Mapping[str, Any] = field(default_factory=dict)
    # All records or none survive a crash. Leader elections of many partitions need not.
    atomic: bool = True


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """What the controller must know of its own node's settings."""

    node_id: int
    cluster_id: str
    # server.properties as text: the level below dynamic configs when a value is looked up.
    static_configs: Mapping[str, str] = field(default_factory=dict)
    num_partitions: int = 1
    default_replication_factor: int = 1
    min_insync_replicas: int = 1
    unclean_leader_election: bool = False
    delete_topic_enable: bool = True
    broker_session_timeout_ms: int = 9_000
