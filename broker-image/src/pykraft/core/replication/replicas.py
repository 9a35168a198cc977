"""The partitions that this broker hosts, by topic name and by topic id."""

from collections.abc import Iterator

from pykraft.core.replication.partition import Partition
from pykraft.protocol.errors import ErrorCode, KafkaError


class Replicas:
    """Two dictionaries over the same partitions. Invariant: a name and its id hold one mapping."""

    def __init__(self) -> None:
        self.by_name: dict[str, dict[int, Partition]] = {}
        self.by_id: dict[bytes, dict[int, Partition]] = {}
        self.names: dict[bytes, str] = {}

    def add(self, partition: Partition) -> None:
        of_topic = self.by_name.setdefault(partition.topic, {})
        of_topic[partition.index] = partition
        self.by_id[partition.topic_id] = of_topic
        self.names[partition.topic_id] = partition.topic

    def remove(self, topic: str, index: int) -> Partition | None:
        of_topic = self.by_name.get(topic)
        if of_topic is None:
            return None
        partition = of_topic.pop(index, None)
        if partition is not None and not of_topic:
            del self.by_name[topic]
            del self.by_id[partition.topic_id]
            del self.names[partition.topic_id]
        return partition

    def find(self, topic: str, index: int) -> Partition:
        """Raises UNKNOWN_TOPIC_OR_PARTITION, which is also what Kafka says of a bad index."""
        of_topic = self.by_name.get(topic)
        partition = of_topic.get(index) if of_topic is not None else None
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return partition

    def __iter__(self) -> Iterator[Partition]:
        for of_topic in list(self.by_name.values()):
            yield from list(of_topic.values())

    def __len__(self) -> int:
        return sum(len(of_topic) for of_topic in self.by_name.values())
