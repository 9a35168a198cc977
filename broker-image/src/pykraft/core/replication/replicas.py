"""The partitions that this broker hosts, by topic name and by topic id."""

from collections.abc import Iterator, Mapping

from pykraft.core.replication.partition import Partition
from pykraft.protocol.errors import ErrorCode, KafkaError

# Older versions of an API name a topic, newer ones have its id.
TopicKey = str | bytes


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

    def of_topic(self, topic: TopicKey) -> Mapping[int, Partition] | None:
        if isinstance(topic, str):
            return self.by_name.get(topic)
        return self.by_id.get(topic)

    def find(self, topic: TopicKey, index: int) -> Partition:
        """Raises what Kafka says of a topic or an index that it does not know."""
        hosted = self.of_topic(topic)
        partition = hosted.get(index) if hosted is not None else None
        if partition is None:
            raise KafkaError(unknown(topic, hosted))
        return partition

    def name_of(self, topic: TopicKey) -> str | None:
        """None for a topic that is not hosted here."""
        if isinstance(topic, str):
            return topic if topic in self.by_name else None
        return self.names.get(topic)

    def __iter__(self) -> Iterator[Partition]:
        for of_topic in list(self.by_name.values()):
            yield from list(of_topic.values())

    def __len__(self) -> int:
        return sum(len(of_topic) for of_topic in self.by_name.values())


def unknown(topic: TopicKey, hosted: Mapping[int, Partition] | None) -> ErrorCode:
    """What is unknown: the id of a topic; or its name, or one of its partitions."""
    if hosted is None and isinstance(topic, bytes):
        return ErrorCode.UNKNOWN_TOPIC_ID
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
