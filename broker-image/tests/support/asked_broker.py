"""A broker without sockets: real handlers over a real controller, real logs in a temporary folder.

Requests and answers go through the codec, so a test sees what a client of that version would see.
"""

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pykraft import configs
from pykraft.core.controller.controller import Controller
from pykraft.core.controller.features import SUPPORTED
from pykraft.core.controller.image import MetadataImage
from pykraft.core.controller.outcome import ControllerConfig, Outcome
from pykraft.core.log.config import LogConfig
from pykraft.core.log.partition_log import PartitionLog
from pykraft.core.replication.fetch_sessions import FetchSessions
from pykraft.core.replication.partition import Partition
from pykraft.core.replication.replicas import Replicas
from pykraft.counters import Counters
from pykraft.handlers import HANDLERS
from pykraft.handlers.configs import broker_layers
from pykraft.handlers.context import Broker, LogDirectory, Part, RequestContext
from pykraft.ids import Uuid
from pykraft.protocol.decoding import Message, decode_request, decode_response
from pykraft.protocol.encoding import encode_request
from pykraft.protocol.errors import ErrorCode, KafkaError
from pykraft.protocol.metadata_records import (
    BrokerRegistrationChangeRecord,
    Endpoint,
    FeatureLevelRecord,
    MetadataRecord,
    RegisterBrokerRecord,
    SupportedFeature,
)
from pykraft.protocol.versions import ApiKey
from pykraft.runtime.disk import RealDisk
from pykraft.settings import Settings

NODE = 1
CLUSTER_ID = "EBESExQVFhcYGRobHB0eHw"
LISTENER = "PLAINTEXT"
LOG_DIR_ID = Uuid(b"d" * 16)
NOW_MS = 1_750_000_000_000


def settings(**overrides: str) -> Settings:
    """Keys with underscores for dots."""
    properties = {
        "process.roles": "broker,controller",
        "node.id": str(NODE),
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "log.dirs": "/nowhere",
    }
    properties |= {key.replace("_", "."): value for key, value in overrides.items()}
    return Settings.from_properties(properties)


def registration(broker: int = NODE, **changes: Any) -> RegisterBrokerRecord:
    fields: dict[str, Any] = {
        "broker_id": broker,
        "incarnation_id": Uuid(bytes([broker]) * 16),
        "broker_epoch": 7,
        "end_points": (Endpoint(name=LISTENER, host=f"b{broker}", port=9092, security_protocol=0),),
        "features": tuple(
            SupportedFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in SUPPORTED.items()
        ),
        "rack": None,
        "fenced": False,
        "log_dirs": (LOG_DIR_ID,),
    }
    return RegisterBrokerRecord(**(fields | changes))


class AskedBroker:
    """Plays the parts of the world that handlers see: gateway, log directories, producer ids."""

    def __init__(self, folder: Path, **overrides: str) -> None:
        dice = random.Random(3)
        chosen = settings(**overrides)
        config = ControllerConfig(
            node_id=NODE,
            cluster_id=CLUSTER_ID,
            static_configs=chosen.static,
            num_partitions=chosen.num_partitions,
        )
        self.controller = Controller(config, lambda: Uuid(dice.randbytes(16)), dice)
        self.disk = RealDisk(str(folder))
        self.now = NOW_MS
        self.online = True
        self.producer_id_error: ErrorCode | None = None
        self.submitted = 0
        self.is_active = True
        self.broker = Broker(
            node_id=NODE,
            cluster_id=CLUSTER_ID,
            settings=chosen,
            image=MetadataImage(),
            replicas=Replicas(),
            sessions=FetchSessions(100, 120_000, lambda: 1),
            controller=self,
            log_dirs=self,
            world=self,  # type: ignore[arg-type]
            counters=Counters(),
            producer_ids=self,
            metadata_cache={},
        )
        self.commit([FeatureLevelRecord(name="metadata.version", feature_level=30)])
        self.commit([registration()])

    # The world

    def now_ms(self) -> int:
        return self.now

    def in_worker(
        self,
        work: Callable[[], Any],
        done: Callable[[Any], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """At once, as the workers of a test that is not about them."""
        try:
            result = work()
        except Exception as error:
            failed(error)
        else:
            done(result)

    # The gateway to the controller: what it decides is committed at once.

    def submit(
        self, operation: Callable[[Controller], Outcome], done: Callable[[Mapping[str, Any]], None]
    ) -> None:
        self.submitted += 1
        if not self.is_active:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "this controller is not active")
        outcome = operation(self.controller)
        self.commit(outcome.records)
        done(outcome.reply)

    def describe_quorum(self) -> Mapping[str, Any]:
        return {"topics": [{"topic_name": "__cluster_metadata", "partitions": []}]}

    def commit(self, records: list[MetadataRecord]) -> None:
        image = self.broker.image
        offset = image.offset + len(records)
        self.controller.replay(records, offset, 1)
        for record in records:
            image.replay(record)
        image.offset = offset
        self.broker.metadata_cache.clear()
        for topic, index, partition in image.partitions():
            if NODE in partition.replicas and index not in self._hosted(topic.name):
                self._host(topic.name, topic.id, index)

    def _hosted(self, topic: str) -> Mapping[int, Partition]:
        return self.broker.replicas.by_name.get(topic, {})

    def _host(self, topic: str, topic_id: Uuid, index: int) -> None:
        overrides = self.broker.image.configs.get((2, topic), {})
        values = configs.effective_topic_configs(overrides, broker_layers(self.broker))
        log = PartitionLog.open(
            self.disk,
            f"{topic}-{index}",
            LogConfig.from_configs(values),
            now_ms=self.now,
            clean=True,
            topic_id=topic_id,
        )
        partition = Partition(topic, topic_id, index, log, _raise)
        partition.replicas = partition.isr = (NODE,)
        partition.lead(0, node_id=NODE)
        self.broker.replicas.add(partition)

    # Log directories and producer ids

    def describe(self) -> list[LogDirectory]:
        logs = frozenset(partition.log.name for partition in self.broker.replicas)
        return [LogDirectory("/data", LOG_DIR_ID, self.online, 1000, 400, logs)]

    def next(self, done: Callable[[int], None], failed: Callable[[int], None]) -> None:
        if self.producer_id_error is not None:
            failed(self.producer_id_error)
        else:
            done(4000)

    # For tests

    def create(self, name: str, partitions: int = 1, **topic_configs: str) -> Partition:
        answer = self.ask(
            ApiKey.CREATE_TOPICS,
            7,
            topics=[
                {
                    "name": name,
                    "num_partitions": partitions,
                    "replication_factor": 1,
                    "configs": [
                        {"name": key.replace("_", "."), "value": value}
                        for key, value in topic_configs.items()
                    ],
                }
            ],
        )
        assert answer.topics[0].error_code == ErrorCode.NONE, answer
        return self.broker.replicas.find(name, 0)

    def partition(self, topic: str, index: int = 0) -> Partition:
        return self.broker.replicas.find(topic, index)

    def fence(self, broker: int) -> None:
        epoch = self.broker.image.brokers[broker].epoch
        self.commit(
            [BrokerRegistrationChangeRecord(broker_id=broker, broker_epoch=epoch, fenced=1)]
        )

    def ask(
        self, api_key: ApiKey, version: int, *, listener: str = LISTENER, **body: Any
    ) -> Message:
        """The decoded answer. `body` has kio's names; what is left out has its default."""
        parts = self.ask_raw(api_key, version, listener=listener, **body)
        return decode_response(api_key, version, memoryview(parts))

    def ask_raw(
        self, api_key: ApiKey, version: int, *, listener: str = LISTENER, **body: Any
    ) -> bytes:
        sent: list[tuple[Part, ...] | None] = []
        context = RequestContext(
            api_key=api_key,
            version=version,
            correlation_id=5,
            client_bytes=b"tester",
            listener=listener,
            peer="127.0.0.1:50000",
            counters=self.broker.counters.request(api_key),
            started_ns=0,
            sender=lambda _, parts: sent.append(None if parts is None else tuple(parts)),
            disconnect=lambda: sent.append(None),
        )
        encoded = encode_request(api_key, version, body)
        request = decode_request(api_key, version, memoryview(encoded))
        reply = HANDLERS[api_key](self.broker, context, request)
        if reply is not None:
            context.reply(reply)
        assert len(sent) == 1, "a request is answered exactly once"
        assert sent[0] is not None
        return b"".join(part for part in sent[0] if isinstance(part, bytes))

    def errors(self, api_key: ApiKey) -> Mapping[int, int]:
        """What was counted, by code."""
        return self.broker.counters.request(api_key).errors


def _raise(_: Partition, error: Exception) -> None:
    raise error
