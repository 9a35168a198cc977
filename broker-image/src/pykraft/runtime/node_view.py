"""What the probes and the metrics page see of this node. Answered on the loop, from memory."""

from collections.abc import Callable, Iterator, Sequence

from pykraft.handlers.context import Broker
from pykraft.ops.view import LogDirStats, NodeStatus, PartitionStats
from pykraft.runtime.log_manager import LogManager


class RealNodeView:
    """Implements ops.view.NodeView."""

    def __init__(
        self,
        broker: Broker,
        logs: LogManager,
        metadata_end: Callable[[], int],
        is_active_controller: Callable[[], bool],
        is_shutting_down: Callable[[], bool],
    ) -> None:
        self.broker = broker
        self.logs = logs
        self.metadata_end = metadata_end
        self.is_active_controller = is_active_controller
        self.is_shutting_down = is_shutting_down

    def partitions(self) -> Iterator[PartitionStats]:
        for partition in list(self.broker.replicas):
            log = partition.log
            yield PartitionStats(
                topic=partition.topic,
                partition=partition.index,
                log_start_offset=log.log_start_offset,
                log_end_offset=log.log_end_offset,
                high_watermark=partition.high_watermark,
                size=log.size,
                segments=len(log.segments),
                is_leader=partition.is_leader,
                isr_size=len(partition.isr),
                replicas=len(partition.replicas),
                min_isr=log.config.min_insync_replicas,
                offline=partition.offline,
            )

    def log_dirs(self) -> Sequence[LogDirStats]:
        return [LogDirStats(directory.path, directory.online) for directory in self.logs.dirs]

    def status(self) -> NodeStatus:
        image = self.broker.image
        me = image.brokers.get(self.broker.node_id)
        partitions = [p for topic in image.topics.values() for p in topic.partitions.values()]
        sessions = self.broker.sessions.sessions.values()
        return NodeStatus(
            fenced=me is None or me.fenced,
            shutting_down=self.is_shutting_down(),
            active_controller=self.is_active_controller(),
            metadata_offset=image.offset,
            metadata_end_offset=self.metadata_end(),
            metadata_epoch=image.epoch,
            brokers_active=sum(not broker.fenced for broker in image.brokers.values()),
            brokers_fenced=sum(broker.fenced for broker in image.brokers.values()),
            topics=len(image.topics),
            partitions=len(partitions),
            partitions_offline=sum(partition.leader < 0 for partition in partitions),
            fetch_sessions=len(sessions),
            fetch_session_partitions=self.broker.sessions.partitions,
        )
