"""A node as the pages see it, with whatever a test wants to show."""

from collections.abc import Iterator, Sequence

from pykraft.ops.view import LogDirStats, NodeStatus, PartitionStats

HEALTHY = NodeStatus(
    fenced=False,
    shutting_down=False,
    active_controller=True,
    metadata_offset=41,
    metadata_end_offset=41,
    metadata_epoch=3,
    brokers_active=1,
    brokers_fenced=0,
    topics=2,
    partitions=6,
    partitions_offline=0,
    fetch_sessions=4,
    fetch_session_partitions=9,
)


def partition(topic: str = "orders", number: int = 0, **changed: int) -> PartitionStats:
    stats = PartitionStats(
        topic=topic,
        partition=number,
        log_start_offset=5,
        log_end_offset=25,
        high_watermark=20,
        size=4096,
        segments=2,
        is_leader=True,
        isr_size=1,
        replicas=1,
    )
    return stats._replace(**changed)


class PlayedNode:
    def __init__(
        self,
        partitions: Sequence[PartitionStats] = (),
        log_dirs: Sequence[LogDirStats] = (LogDirStats("/var/lib/kafka", True),),
        status: NodeStatus = HEALTHY,
    ) -> None:
        self.hosted = list(partitions)
        self.directories = log_dirs
        self.state = status
        self.steps = 0

    def partitions(self) -> Iterator[PartitionStats]:
        for stats in list(self.hosted):
            self.steps += 1
            yield stats

    def log_dirs(self) -> Sequence[LogDirStats]:
        return self.directories

    def status(self) -> NodeStatus:
        return self.state
