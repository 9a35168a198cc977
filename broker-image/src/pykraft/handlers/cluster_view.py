"""The cluster as a client on one listener sees it: who is there, who leads, who is away.

A client can only use addresses of the listener that it came by, so a broker that does not have this
listener is as good as absent for it.
"""

from typing import NamedTuple

from pykraft.core.controller.image import NO_LEADER, BrokerImage, MetadataImage, PartitionImage
from pykraft.ids import MIGRATING_DIR, UNASSIGNED_DIR, Uuid
from pykraft.protocol.errors import ErrorCode
from pykraft.protocol.metadata_records import Endpoint

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})

# Bits of the operations that a client may do: all that exist, since nobody is denied anything yet.
TOPIC_OPERATIONS = sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS = sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))
OPERATIONS_NOT_ASKED_FOR = -(2**31)


class PartitionView(NamedTuple):
    """In the order in which Metadata's fields are encoded."""

    error: int
    partition_index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


class ClusterView:
    """Made once per request: what is asked of every partition is prepared here."""

    def __init__(self, image: MetadataImage, listener: str) -> None:
        self.image = image
        self.endpoints: dict[int, Endpoint] = {}
        # The log directories whose replicas are online, per broker that is up; None means all.
        self.online_dirs: dict[int, frozenset[Uuid] | None] = {}
        for broker in image.brokers.values():
            endpoint = next((e for e in broker.endpoints if e.name == listener), None)
            if endpoint is None:
                continue
            self.endpoints[broker.id] = endpoint
            if not broker.fenced:
                self.online_dirs[broker.id] = _online_dirs(broker)

    def brokers(self, *, with_fenced: bool = False) -> list[tuple[BrokerImage, Endpoint]]:
        return [
            (self.image.brokers[broker_id], endpoint)
            for broker_id, endpoint in sorted(self.endpoints.items())
            if with_fenced or broker_id in self.online_dirs
        ]

    def controller_id(self, node_id: int) -> int:
        """Any broker that is up: it passes on what is the controller's. Best is the one asked."""
        if node_id in self.online_dirs:
            return node_id
        return min(self.online_dirs, default=-1)

    def partition(
        self, index: int, partition: PartitionImage, *, tells_listener: bool = True
    ) -> PartitionView:
        """`tells_listener`: the asker knows the error LISTENER_NOT_FOUND."""
        error = ErrorCode.NONE
        leader = partition.leader
        if leader not in self.endpoints:
            has_other_listeners = tells_listener and leader in self.image.brokers
            leader = NO_LEADER
            error = (
                ErrorCode.LISTENER_NOT_FOUND
                if has_other_listeners
                else ErrorCode.LEADER_NOT_AVAILABLE
            )
        return PartitionView(
            error,
            index,
            leader,
            partition.leader_epoch,
            partition.replicas,
            partition.isr,
            self._offline(partition),
        )

    def partition_v0(self, index: int, partition: PartitionImage) -> PartitionView:
        """Metadata v0 has no word for a replica that is away: it is left out, with an error."""
        view = self.partition(index, partition, tells_listener=False)
        replicas = tuple(r for r in view.replicas if r in self.endpoints)
        isr = tuple(r for r in view.isr if r in self.endpoints)
        is_complete = replicas == view.replicas and isr == view.isr
        error = view.error
        if error == ErrorCode.NONE and not is_complete:
            error = ErrorCode.REPLICA_NOT_AVAILABLE
        return view._replace(error=error, replicas=replicas, isr=isr)

    def _offline(self, partition: PartitionImage) -> tuple[int, ...]:
        online = self.online_dirs
        away = []
        for replica, directory in zip(partition.replicas, partition.directories, strict=True):
            if replica in online:
                dirs = online[replica]
                if dirs is None or directory in dirs:
                    continue
            away.append(replica)
        return tuple(away)


def _online_dirs(broker: BrokerImage) -> frozenset[Uuid] | None:
    if not broker.log_dirs:
        return None
    # Where a replica lives may not be known yet; that alone does not make it offline.
    return frozenset((*broker.log_dirs, UNASSIGNED_DIR, MIGRATING_DIR))
