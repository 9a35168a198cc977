"""What leaders and hosts of replicas tell the controller: AlterPartition, AssignReplicasToDirs."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pykraft.core.controller.image import RECOVERED, RECOVERING, MetadataImage, PartitionImage
from pykraft.core.controller.outcome import Outcome
from pykraft.core.controller.partitions import Leaders, directory_of
from pykraft.core.controller.records import MV_3_7_IV2_DIRECTORIES
from pykraft.ids import LOST_DIR, UNASSIGNED_DIR, Uuid
from pykraft.protocol.errors import ErrorCode, KafkaError
from pykraft.protocol.metadata_records import MetadataRecord, PartitionChangeRecord

# An ISR member of AlterPartition v2, which names no epoch of the broker.
ANY_EPOCH = -1


@dataclass(slots=True)
class ReplicaControl:
    image: MetadataImage
    leaders: Leaders

    # AlterPartition

    def alter_partition(self, request: Any) -> Outcome:
        if not self._is_current(request.broker_id, request.broker_epoch):
            return Outcome(reply={"error_code": ErrorCode.STALE_BROKER_EPOCH, "topics": []})
        records: list[MetadataRecord] = []
        topics = []
        for wish in request.topics:
            partitions = []
            for each in wish.partitions:
                record, reply = self._alter(request.broker_id, bytes(wish.topic_id), each)
                records += [] if record is None else [record]
                partitions.append({"partition_index": each.partition_index, **reply})
            topics.append({"topic_id": wish.topic_id, "partitions": partitions})
        reply = {"error_code": ErrorCode.NONE, "topics": topics}
        return Outcome(records, reply, atomic=False)

    def _is_current(self, broker_id: int, epoch: int) -> bool:
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.epoch == epoch

    def _alter(
        self, broker_id: int, topic_id: bytes, wish: Any
    ) -> tuple[PartitionChangeRecord | None, dict[str, Any]]:
        topic = self.image.topics_by_id.get(topic_id)
        if topic is None:
            return None, {"error_code": ErrorCode.UNKNOWN_TOPIC_ID}
        partition = topic.partitions.get(wish.partition_index)
        if partition is None:
            return None, {"error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        members = _wished_isr(wish)
        try:
            _check_epochs(broker_id, partition, wish)
            self._check_isr(partition, members, wish.leader_recovery_state)
        except KafkaError as error:
            return None, {"error_code": error.code}
        change = self.leaders.change(topic, wish.partition_index, added=broker_id)
        change.isr = tuple(members)
        change.recovery_state = wish.leader_recovery_state
        record = change.record()
        return record, {
            "error_code": ErrorCode.NONE,
            "leader_id": partition.leader,
            "leader_epoch": partition.leader_epoch,
            "isr": list(members),
            "leader_recovery_state": wish.leader_recovery_state,
            "partition_epoch": partition.partition_epoch + (record is not None),
        }

    def _check_isr(
        self, partition: PartitionImage, members: dict[int, int], recovery_state: int
    ) -> None:
        in_replicas = all(member in partition.replicas for member in members)
        if not in_replicas or partition.leader not in members:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if recovery_state == RECOVERING and len(members) > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if recovery_state == RECOVERING and partition.recovery_state == RECOVERED:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        for member, epoch in members.items():
            broker = self.image.brokers.get(member)
            if broker is None or not broker.is_active or epoch not in (ANY_EPOCH, broker.epoch):
                raise KafkaError(ErrorCode.INELIGIBLE_REPLICA)

    def recover_leaders(self, broker_id: int) -> Outcome:
        """All partitions that this broker leads and has recovered after an unclean election.

        A leader says so with AlterPartition; a combined node says it for all of them at once.
        """
        records: list[MetadataRecord] = [
            PartitionChangeRecord(
                partition_id=index, topic_id=topic.id, leader_recovery_state=RECOVERED
            )
            for topic, index, partition in self.image.partitions()
            if partition.leader == broker_id and partition.recovery_state == RECOVERING
        ]
        return Outcome(records, atomic=False)

    # AssignReplicasToDirs

    def assign_replicas_to_dirs(self, request: Any) -> Outcome:
        if self.image.metadata_version < MV_3_7_IV2_DIRECTORIES:
            return Outcome(reply={"error_code": ErrorCode.UNSUPPORTED_VERSION, "directories": []})
        if not self._is_current(request.broker_id, request.broker_epoch):
            return Outcome(reply={"error_code": ErrorCode.STALE_BROKER_EPOCH, "directories": []})
        records: list[MetadataRecord] = []
        directories = []
        for directory in request.directories:
            topics = []
            for topic in directory.topics:
                partitions = []
                for each in topic.partitions:
                    code, made = self._assign(
                        request.broker_id,
                        Uuid(bytes(directory.id)),
                        bytes(topic.topic_id),
                        each.partition_index,
                    )
                    records += made
                    partitions.append({"partition_index": each.partition_index, "error_code": code})
                topics.append({"topic_id": topic.topic_id, "partitions": partitions})
            directories.append({"id": directory.id, "topics": topics})
        reply = {"error_code": ErrorCode.NONE, "directories": directories}
        return Outcome(records, reply, atomic=False)

    def _assign(
        self, broker_id: int, directory: Uuid, topic_id: bytes, index: int
    ) -> tuple[ErrorCode, Iterable[MetadataRecord]]:
        topic = self.image.topics_by_id.get(topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID, ()
        partition = topic.partitions.get(index)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ()
        if broker_id not in partition.replicas:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, ()
        if directory_of(partition, broker_id) == directory:
            return ErrorCode.NONE, ()
        records: list[MetadataRecord] = [
            PartitionChangeRecord(
                partition_id=index,
                topic_id=topic.id,
                directories=tuple(
                    directory if replica == broker_id else old
                    for replica, old in zip(partition.replicas, partition.directories, strict=True)
                ),
            )
        ]
        if not self._is_online(broker_id, directory) and broker_id in partition.isr:
            change = self.leaders.change(topic, index, excluded=(broker_id,))
            change.isr = tuple(each for each in partition.isr if each != broker_id)
            record = change.record()
            records += [] if record is None else [record]
        return ErrorCode.NONE, records

    def _is_online(self, broker_id: int, directory: Uuid) -> bool:
        if directory == LOST_DIR:
            return False
        known = self.image.brokers[broker_id].log_dirs
        return directory == UNASSIGNED_DIR or directory in known


def _wished_isr(wish: Any) -> dict[int, int]:
    """Broker epochs by broker; version 2 of the request gives no epochs."""
    if wish.new_isr_with_epochs:
        return {each.broker_id: each.broker_epoch for each in wish.new_isr_with_epochs}
    return dict.fromkeys(wish.new_isr or (), ANY_EPOCH)


def _check_epochs(broker_id: int, partition: PartitionImage, wish: Any) -> None:
    # A leader that knows more than we do was told by a newer controller.
    if wish.leader_epoch > partition.leader_epoch or (
        wish.partition_epoch > partition.partition_epoch
    ):
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    if wish.leader_epoch < partition.leader_epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
    if broker_id != partition.leader:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if wish.partition_epoch < partition.partition_epoch:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION)
