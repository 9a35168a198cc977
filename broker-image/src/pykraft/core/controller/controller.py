"""The active controller: every operation looks at the image and returns an Outcome.

Operations change nothing. The driver writes the records of an outcome and replays them here at
once, so that the next operation sees them; the reply leaves when they are committed. Should they
never commit, the controller has lost its leadership and its image with it.
"""

from collections.abc import Callable, Sequence
from typing import Any

from pykraft.core.controller.assignments import Assigner
from pykraft.core.controller.brokers import BrokerControl, Sessions
from pykraft.core.controller.configs import ConfigControl
from pykraft.core.controller.features import (
    FeatureControl,
    bootstrap_levels,
    check_levels,
    default_bootstrap,
    elr_safety_records,
)
from pykraft.core.controller.image import ELR_VERSION, METADATA_VERSION, MetadataImage
from pykraft.core.controller.outcome import ControllerConfig, Outcome
from pykraft.core.controller.partitions import Leaders
from pykraft.core.controller.placement import Dice
from pykraft.core.controller.records import MV_3_6_IV1_TRANSACTIONS, Transactions
from pykraft.core.controller.replicas import ReplicaControl
from pykraft.core.controller.topics import TopicControl
from pykraft.ids import Uuid
from pykraft.protocol.errors import ErrorCode
from pykraft.protocol.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
    ProducerIdsRecord,
)

__all__ = ["Controller", "ControllerConfig", "Outcome"]

PRODUCER_IDS_PER_BLOCK = 1000


class Controller:
    def __init__(
        self,
        config: ControllerConfig,
        new_uuid: Callable[[], Uuid],
        dice: Dice,
        image: MetadataImage | None = None,
    ) -> None:
        self.config = config
        self.image = image = MetadataImage() if image is None else image
        self.transactions = Transactions()
        self.configs = ConfigControl(image, config)
        self.leaders = Leaders(image, self.configs.min_isr_of, self.configs.unclean_allowed)
        self.features = FeatureControl(image, config)
        self.assigner = Assigner(image, dice)
        self.topics = TopicControl(image, config, self.configs, self.assigner, new_uuid)
        self.sessions = Sessions(config.broker_session_timeout_ms)
        self.brokers = BrokerControl(image, config, self.leaders, self.sessions)
        self.replicas = ReplicaControl(image, self.leaders)

    def replay(self, records: Sequence[MetadataRecord], offset: int, epoch: int) -> None:
        """`offset` is that of the last record."""
        for record in self.transactions.effective(records):
            self.image.replay(record)
        self.image.offset = offset
        self.image.epoch = epoch

    # Activation

    def activate(self, bootstrap: Sequence[MetadataRecord]) -> Outcome:
        """What a new leader writes first: the end of what another left open, or the beginning."""
        records: list[MetadataRecord] = []
        if self.transactions.is_open:
            # Its writer died. Nobody else will end it, and nobody saw what is in it.
            records.append(AbortTransactionRecord(reason="controller failover"))
        if METADATA_VERSION not in self.image.features:
            records += self._bootstrap(bootstrap)
        return Outcome(records)

    def _bootstrap(self, records: Sequence[MetadataRecord]) -> list[MetadataRecord]:
        # Without the file of `format`, a cluster begins as Kafka's newest would.
        inner = list(records) or default_bootstrap()
        levels = bootstrap_levels(inner)
        check_levels(levels)
        if levels.get(ELR_VERSION, 0) > 0:
            inner += elr_safety_records(self.image, self.config)
        if levels.get(METADATA_VERSION, 0) < MV_3_6_IV1_TRANSACTIONS:
            return inner
        begin = BeginTransactionRecord(name="Bootstrap records")
        return [begin, *inner, EndTransactionRecord()]

    # Operations, by API

    def create_topics(self, request: Any) -> Outcome:
        return self.topics.create_topics(request)

    def delete_topics(self, request: Any, version: int) -> Outcome:
        return self.topics.delete_topics(request, version)

    def create_partitions(self, request: Any) -> Outcome:
        return self.assigner.create_partitions(request)

    def incremental_alter_configs(self, request: Any, node_id: int) -> Outcome:
        """`node_id` is the broker that the client asked; only its own configs may change."""
        return self.configs.incremental_alter_configs(request, node_id)

    def alter_configs(self, request: Any, node_id: int) -> Outcome:
        return self.configs.alter_configs(request, node_id)

    def update_features(self, request: Any) -> Outcome:
        return self.features.update_features(request)

    def register_broker(self, request: Any, now_ms: int) -> Outcome:
        return self.brokers.register_broker(request, now_ms, self.image.offset + 1)

    def register_controller(self, request: Any) -> Outcome:
        return self.brokers.register_controller(request)

    def unregister_broker(self, request: Any) -> Outcome:
        return self.brokers.unregister_broker(request)

    def heartbeat(self, request: Any, now_ms: int) -> Outcome:
        return self.brokers.heartbeat(request, now_ms)

    def alter_partition(self, request: Any) -> Outcome:
        return self.replicas.alter_partition(request)

    def assign_replicas_to_dirs(self, request: Any) -> Outcome:
        return self.replicas.assign_replicas_to_dirs(request)

    def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> Outcome:
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker.epoch != broker_epoch:
            code = ErrorCode.STALE_BROKER_EPOCH
            return Outcome(reply={"error_code": code, "producer_id_start": 0, "producer_id_len": 0})
        first = self.image.next_producer_id
        record = ProducerIdsRecord(
            broker_id=broker_id,
            broker_epoch=broker_epoch,
            next_producer_id=first + PRODUCER_IDS_PER_BLOCK,
        )
        reply = {
            "error_code": ErrorCode.NONE,
            "producer_id_start": first,
            "producer_id_len": PRODUCER_IDS_PER_BLOCK,
        }
        return Outcome([record], reply)

    # Without a request

    def fence_silent_brokers(self, now_ms: int) -> Outcome:
        return self.brokers.fence_silent(now_ms)

    def fence_dead_broker(self, broker_id: int) -> Outcome:
        return self.brokers.fence_dead(broker_id)

    def recover_leaders(self, broker_id: int) -> Outcome:
        return self.replicas.recover_leaders(broker_id)
