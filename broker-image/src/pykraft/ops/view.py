"""What the probes and the metrics page ask of a node.

All of it is asked on the node's own event loop, in short turns: nothing under `core` is made to be
read by another thread, and so nothing there needs a lock.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol


class PartitionStats(NamedTuple):
    """One partition that this node hosts."""

    topic: str
    partition: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    size: int
    segments: int
    is_leader: bool
    isr_size: int
    replicas: int
    min_isr: int = 1
    # Its log directory failed.
    offline: bool = False


class LogDirStats(NamedTuple):
    path: str
    online: bool


class NodeStatus(NamedTuple):
    """The node's part in its cluster, and the cluster as its metadata show it."""

    # Registered, but not (yet) allowed to lead; meaningless on a node that is no broker.
    fenced: bool
    shutting_down: bool
    # This node is the active controller, so its view of the whole cluster is the current one.
    active_controller: bool
    # Last record applied, and the end of what is committed: equal when we have caught up.
    metadata_offset: int
    metadata_end_offset: int
    metadata_epoch: int
    brokers_active: int
    brokers_fenced: int
    topics: int
    partitions: int
    partitions_offline: int
    fetch_sessions: int
    fetch_session_partitions: int

    @property
    def metadata_lag(self) -> int:
        """In records."""
        return max(0, self.metadata_end_offset - self.metadata_offset)


class NodeView(Protocol):
    """Called on the node's event loop only. Answer from memory: no file, no lock, no wait."""

    def partitions(self) -> Iterator[PartitionStats]:
        """Stepped a few partitions at a time, with other work of the loop in between.

        So it must not iterate over a dictionary that changes: take a list of the partitions first.
        """

    def log_dirs(self) -> Sequence[LogDirStats]: ...

    def status(self) -> NodeStatus: ...
