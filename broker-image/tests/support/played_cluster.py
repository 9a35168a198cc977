"""A controller without a disk: what it decides is replayed at once, and kept as the log would."""

import random
from collections.abc import Sequence
from itertools import count
from typing import Any

from pykraft.core.controller.brokers import our_features
from pykraft.core.controller.controller import Controller, ControllerConfig, Outcome
from pykraft.core.controller.features import default_levels
from pykraft.core.controller.image import PartitionImage
from pykraft.core.controller.records import feature_record, snapshot_records, version_of
from pykraft.ids import Uuid
from pykraft.protocol.decoding import Message, make_request
from pykraft.protocol.metadata_records import MetadataRecord, decode_record, encode_record
from pykraft.protocol.versions import ApiKey

CLUSTER_ID = "a-cluster"
FIRST_ID = 1000


def numbered_uuid(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


class PlayedCluster:
    """Time stands still unless a test moves it; ids are numbers in the order of their drawing."""

    def __init__(self, metadata_version: int = 30, seed: int = 1, **config: Any) -> None:
        self.config = ControllerConfig(node_id=1, cluster_id=CLUSTER_ID, **config)
        self.levels = default_levels(metadata_version)
        self.ids = map(numbered_uuid, count(FIRST_ID))
        self.seed = seed
        self.now_ms = 1_000_000
        # Encoded, as they would be read again after a crash.
        self.log: list[bytes] = []
        self.controller = self._new_controller()

    def _new_controller(self) -> Controller:
        return Controller(self.config, lambda: next(self.ids), random.Random(self.seed))

    def start(self) -> list[MetadataRecord]:
        bootstrap = [feature_record(*item) for item in self.levels.items()]
        records, _ = self.run(self.controller.activate(bootstrap))
        return records

    def run(self, outcome: Outcome) -> tuple[list[MetadataRecord], dict[str, Any]]:
        """Write and replay; returns the records and the reply."""
        for record in outcome.records:
            version = version_of(record, self.image.metadata_version)
            self.log.append(encode_record(record, version))
        self._replay(self.log[len(self.log) - len(outcome.records) :], len(self.log) - 1)
        return outcome.records, dict(outcome.reply)

    def _replay(self, values: Sequence[bytes], last_offset: int) -> None:
        self.controller.replay([decode_record(value) for value in values], last_offset, 1)

    def crash(self) -> None:
        """The controller dies, and another one reads the log."""
        self.controller = self._new_controller()
        self._replay(self.log, len(self.log) - 1)

    def reload_from_snapshot(self) -> None:
        """A new controller reads a snapshot of the old one's image instead of the log."""
        image = self.image
        values = [
            encode_record(record, version_of(record, image.metadata_version))
            for record in snapshot_records(image)
        ]
        self.controller = self._new_controller()
        self._replay(values, image.offset)

    @property
    def image(self) -> Any:
        return self.controller.image

    def partition(self, topic: str, index: int = 0) -> PartitionImage:
        partition: PartitionImage = self.image.topics[topic].partitions[index]
        return partition

    # Brokers

    def register(
        self,
        broker: int,
        *,
        rack: str | None = None,
        previous_epoch: int = -1,
        incarnation: int | None = None,
        **changed: Any,
    ) -> tuple[list[MetadataRecord], dict[str, Any]]:
        incarnation_id = next(self.ids) if incarnation is None else numbered_uuid(incarnation)
        request = make_request(
            ApiKey.BROKER_REGISTRATION,
            {
                "broker_id": broker,
                "cluster_id": CLUSTER_ID,
                "incarnation_id": incarnation_id,
                "listeners": [
                    {"name": "PLAINTEXT", "host": "localhost", "port": 9092 + broker}
                    | {"security_protocol": 0}
                ],
                "features": [
                    {"name": name, "min_supported_version": low, "max_supported_version": high}
                    for name, (low, high) in our_features().items()
                ],
                "rack": rack,
                "log_dirs": [numbered_uuid(500 + broker)],
                "previous_broker_epoch": previous_epoch,
                **changed,
            },
        )
        return self.run(self.controller.register_broker(request, self.now_ms))

    def heartbeat(self, broker: int, **said: Any) -> tuple[list[MetadataRecord], dict[str, Any]]:
        registered = self.image.brokers.get(broker)
        request = make_request(
            ApiKey.BROKER_HEARTBEAT,
            {
                "broker_id": broker,
                "broker_epoch": registered.epoch if registered else -1,
                "current_metadata_offset": self.image.offset,
                "want_fence": False,
                "want_shut_down": False,
                **said,
            },
        )
        return self.run(self.controller.heartbeat(request, self.now_ms))

    def with_brokers(self, *brokers: int, racks: str = "") -> "PlayedCluster":
        """Started, with these brokers unfenced; `racks` has a letter for each."""
        self.start()
        for number, broker in enumerate(brokers):
            self.register(broker, rack=racks[number] if racks else None)
            self.heartbeat(broker)
        return self

    # Topics

    def create(self, *topics: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
        replies: list[dict[str, Any]] = self.create_with_records(*topics, **options)[1]
        return replies

    def create_with_records(
        self, *topics: dict[str, Any], validate_only: bool = False
    ) -> tuple[list[MetadataRecord], list[dict[str, Any]]]:
        body = {"topics": list(topics), "timeout": 1000, "validate_only": validate_only}
        request = make_request(ApiKey.CREATE_TOPICS, body)
        records, reply = self.run(self.controller.create_topics(request))
        return records, reply["topics"]


def topic(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    *,
    assignments: dict[int, list[int]] | list[tuple[int, list[int]]] | None = None,
    configs: dict[str, str | None] | None = None,
) -> dict[str, Any]:
    """One topic of CreateTopics; with assignments, counts are left to them unless given."""
    pairs = assignments.items() if isinstance(assignments, dict) else assignments or ()
    return {
        "name": name,
        "num_partitions": -1 if assignments else partitions,
        "replication_factor": -1 if assignments else replicas,
        "assignments": [{"partition_index": i, "broker_ids": b} for i, b in pairs],
        "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
    }


def request(api_key: ApiKey, **body: Any) -> Message:
    return make_request(api_key, body)
