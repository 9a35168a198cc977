"""The broker's side of the metadata log: committed records become an image and hosted logs.

Replay alone changes the image. What records touched is gathered while they are replayed and then
carried out once per batch: a topic of a thousand partitions is one round, not a thousand.
"""

import logging
from collections.abc import Callable, Sequence
from itertools import islice

from pykraft import configs
from pykraft.core.controller.image import (
    BROKER,
    TOPIC,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from pykraft.core.controller.partitions import directory_of
from pykraft.core.log.config import LogConfig
from pykraft.core.replication.partition import Partition
from pykraft.core.storage import StorageError
from pykraft.handlers.configs import broker_layers
from pykraft.handlers.context import Broker
from pykraft.ids import Uuid
from pykraft.protocol.errors import ErrorCode
from pykraft.protocol.metadata_records import (
    ConfigRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
)
from pykraft.runtime.directory_assignments import tell_directories
from pykraft.runtime.log_manager import HIGH_WATERMARKS, LogManager

log = logging.getLogger("pykraft.metadata")

# Partitions that are created or change hands before clients are served again: some 20 ms.
PARTITIONS_PER_TURN = 50

# Frequent records that change no answer to Metadata.
UNSEEN_BY_CLIENTS = (NoOpRecord, ProducerIdsRecord)


class BrokerMetadata:
    def __init__(self, broker: Broker, logs: LogManager) -> None:
        self.broker = broker
        self.logs = logs
        # Of topics that have no configs of their own; made anew when the broker's change.
        self.default_config: LogConfig | None = None
        # Partitions whose change is committed and not yet carried out, in order.
        self.pending: dict[tuple[Uuid, int], None] = {}
        self.on_settled: Callable[[], None] | None = None

    @property
    def image(self) -> MetadataImage:
        return self.broker.image

    # From records to what they touch

    def on_commit(self, records: Sequence[MetadataRecord], offset: int, epoch: int) -> None:
        touched: dict[tuple[Uuid, int], None] = {}
        configured: set[str] = set()
        removed: list[TopicImage] = []
        for record in records:
            if isinstance(record, RemoveTopicRecord):
                removed.append(self.image.topics_by_id[record.topic_id])
            self.image.replay(record)
            if isinstance(record, PartitionRecord | PartitionChangeRecord):
                touched[Uuid(record.topic_id), record.partition_id] = None
            elif isinstance(record, ConfigRecord):
                configured |= self._configured_by(record)
        self.image.offset, self.image.epoch = offset, epoch
        if any(not isinstance(record, UNSEEN_BY_CLIENTS) for record in records):
            self.broker.metadata_cache.clear()
        for topic in removed:
            self._remove(topic)
        for name in configured:
            self._configure(name)
        idle = not self.pending
        # A partition that waits already is carried out as the image then has it.
        self.pending.update(touched)
        if idle:
            self._apply_some()

    def _apply_some(self) -> None:
        """Files are made and epochs written in turns, so that clients are served in between."""
        hosted = []
        for key in list(islice(self.pending, PARTITIONS_PER_TURN)):
            del self.pending[key]
            hosted.append(self._apply(*key))
        tell_directories(self.broker, self.logs, filter(None, hosted))
        if self.pending:
            self.broker.world.call_later(0, self._apply_some)
        elif self.on_settled is not None:
            callback, self.on_settled = self.on_settled, None
            callback()

    def when_settled(self, callback: Callable[[], None]) -> None:
        """Call back when all that is committed is carried out."""
        if self.pending:
            self.on_settled = callback
        else:
            callback()

    def _configured_by(self, record: ConfigRecord) -> set[str]:
        if record.resource_type == TOPIC:
            return {record.resource_name}
        if record.resource_type == BROKER:
            self.default_config = None
            return set(self.broker.replicas.by_name)
        return set()

    # Hosted partitions

    def load(self) -> int:
        """Open the logs that are on disk, as the image stands at start."""
        count = self.logs.load(self._config_if_known)
        for directory in self.logs.dirs:
            for (topic, index), opened in directory.logs.items():
                partition = Partition(topic, opened.topic_id, index, opened, self._on_storage_error)
                mark = directory.latest[HIGH_WATERMARKS].get((topic, index), 0)
                partition.high_watermark = min(
                    max(mark, opened.log_start_offset), opened.log_end_offset
                )
                self.broker.replicas.add(partition)
        return count

    def _config_if_known(self, topic: str, topic_id: Uuid, index: int) -> LogConfig | None:
        known = self.image.topics_by_id.get(topic_id)
        if known is None or known.name != topic or index not in known.partitions:
            return None
        if self.broker.node_id not in known.partitions[index].replicas:
            return None
        return self.log_config(topic)

    def log_config(self, topic: str) -> LogConfig:
        """A topic without configs of its own shares one object with all others."""
        overrides = self.image.configs.get((TOPIC, topic), {})
        if not overrides and self.default_config is not None:
            return self.default_config
        values = configs.effective_topic_configs(overrides, broker_layers(self.broker))
        config = LogConfig.from_configs(values)
        if not overrides:
            self.default_config = config
        return config

    def _apply(self, topic_id: Uuid, index: int) -> Partition | None:
        """What the node now hosts of it."""
        topic = self.image.topics_by_id.get(topic_id)
        if topic is None:
            return None
        wanted = topic.partitions[index]
        hosted = self.broker.replicas.by_name.get(topic.name, {}).get(index)
        if self.broker.node_id not in wanted.replicas:
            if hosted is not None:
                self._drop(hosted)
            return None
        if hosted is None:
            hosted = self._create(topic, index)
        if hosted is not None:
            self._lead_or_follow(hosted, wanted)
        return hosted

    def _create(self, topic: TopicImage, index: int) -> Partition | None:
        try:
            assigned = directory_of(topic.partitions[index], self.broker.node_id)
            config = self.log_config(topic.name)
            _, opened = self.logs.create(topic.name, index, topic.id, config, assigned)
        except StorageError as error:
            log.error("cannot create log %s-%s: %s", topic.name, index, error)
            return None
        partition = Partition(topic.name, topic.id, index, opened, self._on_storage_error)
        self.broker.replicas.add(partition)
        return partition

    def _lead_or_follow(self, partition: Partition, wanted: PartitionImage) -> None:
        partition.replicas = tuple(wanted.replicas)
        partition.isr = tuple(wanted.isr)
        partition.partition_epoch = wanted.partition_epoch
        if partition.offline:
            return
        try:
            if wanted.leader != self.broker.node_id:
                partition.step_down(wanted.leader, wanted.leader_epoch)
            elif not partition.is_leader or partition.leader_epoch != wanted.leader_epoch:
                partition.lead(wanted.leader_epoch, node_id=self.broker.node_id)
        except StorageError as error:
            self._on_storage_error(partition, error)

    def _remove(self, topic: TopicImage) -> None:
        for partition in list(self.broker.replicas.by_name.get(topic.name, {}).values()):
            if partition.topic_id == topic.id:
                self._drop(partition)
        self.broker.counters.forget_topic(topic.name)

    def _drop(self, partition: Partition) -> None:
        self.broker.replicas.remove(partition.topic, partition.index)
        partition.is_leader = False
        partition.fail_waiters(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self.logs.remove(partition.topic, partition.index)

    def _configure(self, topic: str) -> None:
        hosted = self.broker.replicas.by_name.get(topic)
        if hosted:
            config = self.log_config(topic)
            for partition in hosted.values():
                partition.log.configure(config)

    # Failures

    def _on_storage_error(self, partition: Partition, error: StorageError) -> None:
        directory = self.logs.dir_of(partition.log)
        if directory is not None:
            self.logs.fail(directory, error)

    def take_offline(self, keys: set[tuple[str, int]]) -> None:
        for partition in self.broker.replicas:
            if (partition.topic, partition.index) in keys:
                partition.take_offline()

    def high_watermarks(self) -> dict[tuple[str, int], int]:
        return {(p.topic, p.index): p.high_watermark for p in self.broker.replicas}
