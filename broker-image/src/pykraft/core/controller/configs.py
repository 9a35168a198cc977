"""AlterConfigs and IncrementalAlterConfigs, of topics, brokers, groups and metrics subscriptions.

Behaviour: a resource's change is made as a whole or not at all; resources do not depend on each
other. Log levels (BROKER_LOGGER) belong to a process, not to the cluster: the broker that is asked
changes them itself, and here they are an unknown type, as for Kafka's AlterConfigs.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pykraft import configs
from pykraft.configs import BrokerLayers, Operation
from pykraft.core.controller.image import BROKER, CLIENT_METRICS, GROUP, TOPIC, MetadataImage
from pykraft.core.controller.outcome import ControllerConfig, Outcome
from pykraft.core.controller.records import MV_4_0_IV1_ELR, config_record
from pykraft.core.controller.topic_names import check_topic_name
from pykraft.protocol.errors import ErrorCode, KafkaError
from pykraft.protocol.metadata_records import ClearElrRecord, MetadataRecord

MIN_ISR = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"

# A name, an operation and a value.
Change = tuple[str, int, str | None]


@dataclass(slots=True)
class ConfigControl:
    image: MetadataImage
    config: ControllerConfig

    def layers(self, node_id: int | None = None) -> BrokerLayers:
        """What counts for a broker, or without one for the cluster as a whole."""
        own = {} if node_id is None else self.image.configs.get((BROKER, str(node_id)), {})
        return BrokerLayers(
            static=self.config.static_configs,
            dynamic_default=self.image.configs.get((BROKER, ""), {}),
            dynamic_broker=own,
        )

    def min_isr_of(self, topic: str) -> int:
        return int(self._look_up(topic, MIN_ISR, str(self.config.min_insync_replicas)))

    def unclean_allowed(self, topic: str) -> bool:
        default = str(self.config.unclean_leader_election)
        return self._look_up(topic, UNCLEAN_ELECTION, default).strip().lower() == "true"

    def _look_up(self, topic: str, name: str, default: str) -> str:
        """For the two configs whose topic and broker names are the same."""
        for key in ((TOPIC, topic), (BROKER, str(self.config.node_id)), (BROKER, "")):
            value = self.image.configs.get(key, {}).get(name)
            if value is not None:
                return value
        return default

    # The two requests

    def incremental_alter_configs(self, request: Any, node_id: int) -> Outcome:
        changes = {
            id(resource): [(c.name, c.config_operation, c.value) for c in resource.configs]
            for resource in request.resources
        }
        return self._alter(request, node_id, changes)

    def alter_configs(self, request: Any, node_id: int) -> Outcome:
        """The older request: what it does not name is deleted."""
        changes = {id(resource): self._replacement(resource) for resource in request.resources}
        return self._alter(request, node_id, changes)

    def _replacement(self, resource: Any) -> list[Change]:
        given = [(c.name, int(Operation.SET), c.value) for c in resource.configs]
        names = {name for name, _, _ in given}
        current = self.image.configs.get((resource.resource_type, resource.resource_name), {})
        gone = [(name, int(Operation.DELETE), None) for name in current if name not in names]
        return given + gone

    def _alter(self, request: Any, node_id: int, changes: Mapping[int, list[Change]]) -> Outcome:
        times = Counter((each.resource_type, each.resource_name) for each in request.resources)
        records: list[MetadataRecord] = []
        replies = []
        for resource in request.resources:
            kind, name = resource.resource_type, resource.resource_name
            error: KafkaError | None = None
            try:
                if times[kind, name] > 1:
                    raise _refused("Each resource must appear at most once.")
                records += self._change(kind, name, changes[id(resource)], node_id)
            except KafkaError as refusal:
                error = refusal
            replies.append(
                {
                    "error_code": error.code if error else ErrorCode.NONE,
                    "error_message": error.message if error else None,
                    "resource_type": kind,
                    "resource_name": name,
                }
            )
        return Outcome([] if request.validate_only else records, {"responses": replies})

    # One resource

    def _change(
        self, kind: int, name: str, changes: list[Change], node_id: int
    ) -> list[MetadataRecord]:
        self._check_resource(kind, name, node_id)
        current = self.image.configs.get((kind, name), {})
        new = configs.apply_operations(kind, current, changes)
        self._check_values(kind, name, new, changes, node_id)
        records: list[MetadataRecord] = []
        for key, _, _ in changes:
            # A broker may have to load a file again that has the same name as before.
            if new.get(key) != current.get(key) or (kind == BROKER and key in new):
                records.append(config_record(kind, name, key, new.get(key)))
                records += clear_elr_records(kind, name, key, self.image)
        return records

    def _check_resource(self, kind: int, name: str, node_id: int) -> None:
        if kind == TOPIC:
            if not name:
                raise _refused("Default topic resources are not allowed.")
            check_topic_name(name)
            if name not in self.image.topics:
                message = f"The topic '{name}' does not exist."
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        elif kind == BROKER:
            if name and not name.removeprefix("-").isdecimal():
                raise _refused(f"Node id must be an integer, but it is: {name}")
            if name and int(name) != node_id:
                raise _refused(f"Unexpected broker id, expected {node_id}, but received {name}")
        elif kind == GROUP:
            if not name:
                raise _refused("Default group resources are not allowed.")
        elif kind == CLIENT_METRICS:
            if not name:
                raise _refused("Subscription name can't be empty")
        else:
            raise _refused(f"Unknown resource type {kind}")

    def _check_values(
        self, kind: int, name: str, new: dict[str, str], changes: list[Change], node_id: int
    ) -> None:
        if kind == TOPIC:
            configs.validate_topic_configs(new, self.layers())
        elif kind == BROKER:
            if self.image.elr_enabled:
                configs.validate_min_isr_under_elr(changes, for_all_brokers=not name)
            configs.validate_broker_configs(new, self.layers(node_id), for_all_brokers=not name)
        elif kind == GROUP:
            configs.validate_group_configs(new, self.layers(node_id))
        else:
            configs.validate_client_metrics_configs(new)


def topic_config_records(
    topic: str, values: Mapping[str, str], *, image: MetadataImage
) -> Iterable[MetadataRecord]:
    for key, value in values.items():
        yield config_record(TOPIC, topic, key, value)
        yield from clear_elr_records(TOPIC, topic, key, image)


def clear_elr_records(
    kind: int, name: str, key: str, image: MetadataImage
) -> Iterable[MetadataRecord]:
    """Who is eligible was decided under the old min.insync.replicas, so it is forgotten."""
    if key != MIN_ISR or not image.elr_enabled or image.metadata_version < MV_4_0_IV1_ELR:
        return
    if kind == TOPIC:
        yield ClearElrRecord(topic_name=name)
    elif kind == BROKER and not name:
        yield ClearElrRecord(topic_name="")


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
