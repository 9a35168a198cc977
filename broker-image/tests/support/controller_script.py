"""The words of tests/scenarios/controller: a cluster's administration, and the records it makes."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from played_cluster import PlayedCluster, request, topic

from pykraft.configs import Operation
from pykraft.core.controller.controller import Outcome
from pykraft.protocol.errors import ErrorCode
from pykraft.protocol.metadata_records import MetadataRecord
from pykraft.protocol.versions import ApiKey

RESOURCES = {"topic": 2, "broker": 4, "client-metrics": 16, "group": 32}
# What a reader of a story does not need; ids are shown as names where they have one.
HIDDEN = {"end_points", "features", "incarnation_id", "log_dirs", "directories"}


class ControllerScript:
    def __init__(self) -> None:
        self.cluster = PlayedCluster()
        self.names: dict[bytes, str] = {}

    def run(self, line: str) -> list[str]:
        word, *arguments = line.split()
        command: Callable[..., Iterable[str]] = getattr(self, word.replace("-", "_"))
        return list(command(*arguments))

    # The node

    def cluster_with(self, *options: str) -> Iterable[str]:
        """cluster-with KEY=VALUE...: settings of the controller, or metadata_version."""
        pairs = (option.split("=") for option in options)
        self.cluster = PlayedCluster(**{key: int(value) for key, value in pairs})
        return ()

    def a_node(self) -> Iterable[str]:
        """One that started for the first time, as first_start.txt shows; nothing is printed."""
        for line in ("start", "register 1", "heartbeat 1 cordons-nothing"):
            self.run(line)
        return ()

    def start(self) -> Iterable[str]:
        return self._shown(self.cluster.start())

    def crash(self) -> Iterable[str]:
        """SIGKILL of the node: the log is all that is left."""
        self.cluster.crash()
        return ()

    def snapshot(self) -> Iterable[str]:
        """Go on from a snapshot of the image, as if the log had been deleted."""
        self.cluster.reload_from_snapshot()
        return ()

    def register(self, broker: str, how: str = "") -> Iterable[str]:
        """`cleanly` names the last epoch, as a broker does that was shut down in order."""
        known = self.cluster.image.brokers.get(int(broker))
        previous = known.epoch if how == "cleanly" else -1
        return self._answered(self.cluster.register(int(broker), previous_epoch=previous))

    def register_in(self, rack: str, broker: str) -> Iterable[str]:
        return self._answered(self.cluster.register(int(broker), rack=rack))

    def heartbeat(self, broker: str, *wishes: str) -> Iterable[str]:
        said = {"want_shut_down": "shutdown" in wishes, "want_fence": "fence" in wishes}
        cordoned = [] if "cordons-nothing" in wishes else None
        answer = self.cluster.heartbeat(int(broker), **said, cordoned_log_dirs=cordoned)
        return self._answered(answer)

    def fence_dead(self, broker: str) -> Iterable[str]:
        return self._done(self.cluster.controller.fence_dead_broker(int(broker)))

    def recover_leaders(self, broker: str) -> Iterable[str]:
        return self._done(self.cluster.controller.recover_leaders(int(broker)))

    def unregister(self, broker: str) -> Iterable[str]:
        body = request(ApiKey.UNREGISTER_BROKER, broker_id=int(broker))
        return self._done(self.cluster.controller.unregister_broker(body))

    def producer_ids(self, broker: str) -> Iterable[str]:
        epoch = self.cluster.image.brokers[int(broker)].epoch
        return self._done(self.cluster.controller.allocate_producer_ids(int(broker), epoch))

    # Topics

    def create(self, name: str, *options: str) -> Iterable[str]:
        """create NAME [partitions=N] [replicas=N] [CONFIG=VALUE...]"""
        given = dict(option.split("=", 1) for option in options)
        counts = {key: int(given.pop(key, 1)) for key in ("partitions", "replicas")}
        records, replies = self.cluster.create_with_records(topic(name, **counts, configs=given))
        return self._answered((records, {"results": replies}))

    def delete(self, *names: str) -> Iterable[str]:
        wanted = [{"name": name, "topic_id": bytes(16)} for name in names]
        body = request(ApiKey.DELETE_TOPICS, topics=wanted, timeout=1000)
        return self._done(self.cluster.controller.delete_topics(body, 6))

    def grow(self, name: str, count: str) -> Iterable[str]:
        wish = {"name": name, "count": int(count), "assignments": None}
        body = request(ApiKey.CREATE_PARTITIONS, topics=[wish], timeout=1000, validate_only=False)
        return self._done(self.cluster.controller.create_partitions(body))

    # Configs and features

    def alter(self, kind: str, name: str, *changes: str) -> Iterable[str]:
        """alter topic NAME set:KEY=VALUE delete:KEY append:KEY=VALUE...; `-` is the default."""
        configs = []
        for change in changes:
            operation, _, rest = change.partition(":")
            key, equals, value = rest.partition("=")
            configs.append(
                {
                    "name": key,
                    "config_operation": int(Operation[operation.upper()]),
                    "value": value if equals else None,
                }
            )
        resource = {
            "resource_type": RESOURCES[kind],
            "resource_name": "" if name == "-" else name,
            "configs": configs,
        }
        body = request(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=[resource], validate_only=False)
        return self._done(self.cluster.controller.incremental_alter_configs(body, 1))

    def feature(self, name: str, level: str, how: str = "upgrade") -> Iterable[str]:
        kinds = {"upgrade": 1, "safe-downgrade": 2, "unsafe-downgrade": 3}
        update = {"feature": name, "max_version_level": int(level), "upgrade_type": kinds[how]}
        body = request(ApiKey.UPDATE_FEATURES, feature_updates=[update], timeout=1000)
        return self._done(self.cluster.controller.update_features(body))

    # What there is

    def show(self, what: str) -> Iterable[str]:
        image = self.cluster.image
        if what == "brokers":
            for broker in image.brokers.values():
                state = "fenced" if broker.fenced else "unfenced"
                yield f"{broker.id} epoch={broker.epoch} {state}"
        elif what == "configs":
            for (kind, name), values in image.configs.items():
                yield f"{kind}:{name or '-'} {_pairs(values)}"
        elif what == "features":
            yield _pairs(image.features)
        else:
            for index, partition in image.topics[what].partitions.items():
                yield f"{what}-{index} {_pairs(_changed(partition, {'directories'}))}"

    # Printing

    def _done(self, outcome: Outcome) -> Iterable[str]:
        return self._answered(self.cluster.run(outcome))

    def _answered(self, answer: tuple[list[MetadataRecord], dict[str, Any]]) -> Iterable[str]:
        records, reply = answer
        yield from self._shown(records)
        lists = [value for value in reply.values() if isinstance(value, list)]
        for result in [reply, *(each for found in lists for each in found)]:
            code = result.get("error_code", 0)
            if code:
                yield f"{ErrorCode(code).name}: {result.get('error_message')}"
        if reply.get("should_shut_down"):
            yield "may shut down"

    def _shown(self, records: list[MetadataRecord]) -> Iterable[str]:
        self.names |= {each.id: each.name for each in self.cluster.image.topics.values()}
        for record in records:
            fields = _changed(record, HIDDEN)
            topic_id = fields.pop("topic_id", None)
            if topic_id is not None:
                fields = {"topic": self.names.get(topic_id), **fields}
            yield f"{type(record).__name__.removesuffix('Record')} {_pairs(fields)}".rstrip()


def _changed(value: Any, hidden: set[str]) -> dict[str, Any]:
    """Fields that do not have their default."""
    return {
        field.name: getattr(value, field.name)
        for field in dataclasses.fields(value)
        if field.name not in hidden and getattr(value, field.name) != field.default
    }


def _pairs(values: dict[str, Any]) -> str:
    return " ".join(f"{key}={_text(value)}" for key, value in values.items())


def _text(value: Any) -> str:
    return f"[{','.join(map(str, value))}]" if isinstance(value, tuple) else str(value)
