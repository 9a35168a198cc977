"""Replicas for new partitions: the client's wish, checked, or placement. And CreatePartitions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pykraft.core.controller.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from pykraft.core.controller.outcome import Outcome
from pykraft.core.controller.placement import Dice, UsableBroker, place
from pykraft.core.controller.records import (
    RECORDS_PER_OPERATION_MAX,
    partition_record,
)
from pykraft.ids import UNASSIGNED_DIR, Uuid
from pykraft.protocol.errors import ErrorCode, KafkaError
from pykraft.protocol.metadata_records import MetadataRecord


@dataclass(slots=True)
class Assigner:
    image: MetadataImage
    dice: Dice

    def place(self, count: int, replication_factor: int) -> list[tuple[int, ...]]:
        return place(count, replication_factor, self._usable(), self.dice)

    def _usable(self) -> list[UsableBroker]:
        return [
            UsableBroker(broker.id, broker.rack, broker.fenced)
            for _, broker in sorted(self.image.brokers.items())
            if not broker.in_controlled_shutdown and not _all_cordoned(broker)
        ]

    def check_new_topic(self, topic: Any) -> dict[int, tuple[int, ...]]:
        """Raises unless the manual assignment of CreateTopics can be carried out."""
        for name, value in (
            ("replication factor", topic.replication_factor),
            ("numPartitions", topic.num_partitions),
        ):
            if value != -1:
                message = (
                    f"A manual partition assignment was specified, but {name} was not set to -1."
                )
                raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        placed: dict[int, tuple[int, ...]] = {}
        for assignment in topic.assignments:
            index, replicas = assignment.partition_index, tuple(assignment.broker_ids)
            if index in placed:
                raise _refused(f"Found multiple manual partition assignments for partition {index}")
            self.check_replicas(index, replicas, _size(placed.values()))
            placed[index] = replicas
        if sorted(placed) != list(range(len(placed))):
            raise _refused("partitions should be a consecutive 0-based integer sequence")
        return {index: placed[index] for index in sorted(placed)}

    def check_replicas(self, index: int, replicas: Sequence[int], size: int | None) -> None:
        if not replicas:
            raise _refused("The manual partition assignment includes an empty replica list.")
        previous = None
        for replica in sorted(replicas):
            if replica not in self.image.brokers:
                raise _refused(
                    f"The manual partition assignment includes broker {replica}, "
                    "but no such broker is registered."
                )
            if replica == previous:
                raise _refused(
                    f"The manual partition assignment includes the broker {replica} more than once."
                )
            previous = replica
        if size is not None and len(replicas) != size:
            raise _refused(
                "The manual partition assignment includes a partition with "
                f"{len(replicas)} replica(s), but this is not consistent with previous "
                f"partitions, which have {size} replica(s)."
            )
        if not any(self.image.brokers[replica].is_active for replica in replicas):
            raise _refused(
                "All brokers specified in the manual partition assignment for "
                f"partition {index} are fenced or in controlled shutdown."
            )

    # CreatePartitions

    def create_partitions(self, request: Any) -> Outcome:
        counts: dict[str, int] = {}
        for wish in request.topics:
            counts[wish.name] = counts.get(wish.name, 0) + 1
        records: list[MetadataRecord] = []
        results: list[dict[str, Any]] = []
        for wish in request.topics:
            if counts[wish.name] > 1:
                continue
            try:
                records += self._grow(wish, RECORDS_PER_OPERATION_MAX - len(records))
                results.append(_result(wish.name))
            except KafkaError as error:
                results.append(_result(wish.name, error.code, error.message))
        for name, count in counts.items():
            if count > 1:
                code = ErrorCode.INVALID_REQUEST
                results.append(_result(name, code, "Duplicate topic name."))
        return Outcome([] if request.validate_only else records, {"results": results})

    def _grow(self, wish: Any, records_left: int) -> list[MetadataRecord]:
        topic = self.image.topics.get(wish.name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        current = len(topic.partitions)
        additional = wish.count - current
        if additional == 0:
            message = f"Topic already has {current} partition(s)."
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, message)
        if additional < 0:
            message = (
                f"The topic {topic.name} currently has {current} partition(s); "
                f"{wish.count} would not be an increase."
            )
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, message)
        if additional > records_left:
            # Kafka answers UNKNOWN_SERVER_ERROR and yet adds some; we refuse as for CreateTopics.
            message = "Excessively large number of partitions per request."
            raise KafkaError(ErrorCode.POLICY_VIOLATION, message)
        placed = self._placed(topic, current, additional, wish.assignments)
        return partition_records(self.image, topic.id, placed)

    def _placed(
        self, topic: TopicImage, first: int, count: int, assignments: Sequence[Any] | None
    ) -> dict[int, tuple[int, ...]]:
        size = len(topic.partitions[0].replicas)
        if assignments is None:
            return dict(enumerate(self.place(count, size), first))
        if len(assignments) != count:
            raise _refused(
                f"Attempted to add {count} additional partition(s), but only "
                f"{len(assignments)} assignment(s) were specified."
            )
        placed = {}
        for index, assignment in enumerate(assignments, first):
            self.check_replicas(index, assignment.broker_ids, size)
            placed[index] = tuple(assignment.broker_ids)
        return placed


def partition_records(
    image: MetadataImage, topic_id: Uuid, placed: Mapping[int, tuple[int, ...]]
) -> list[MetadataRecord]:
    topic = TopicImage("", topic_id, {})
    records: list[MetadataRecord] = []
    for index, replicas in placed.items():
        isr = tuple(replica for replica in replicas if image.brokers[replica].is_active)
        directories = tuple(_default_directory(image.brokers[replica]) for replica in replicas)
        partition = PartitionImage(
            replicas, isr, leader=isr[0], leader_epoch=0, partition_epoch=0, directories=directories
        )
        records.append(partition_record(topic, index, partition, image.metadata_version))
    return records


def _default_directory(broker: BrokerImage) -> Uuid:
    """With one directory there is no choice; with several the broker chooses and tells us."""
    usable = [each for each in broker.log_dirs if each not in (broker.cordoned_log_dirs or ())]
    return usable[0] if len(usable) == 1 else UNASSIGNED_DIR


def _all_cordoned(broker: BrokerImage) -> bool:
    return bool(broker.log_dirs) and set(broker.log_dirs) <= set(broker.cordoned_log_dirs or ())


def _size(placed: Iterable[tuple[int, ...]]) -> int | None:
    return next((len(replicas) for replicas in placed), None)


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _result(
    name: str, code: ErrorCode = ErrorCode.NONE, message: str | None = None
) -> dict[str, Any]:
    return {"name": name, "error_code": code, "error_message": message}
