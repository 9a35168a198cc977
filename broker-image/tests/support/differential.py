"""One scene played before Apache Kafka and before pykraft: the answers must be the same.

A scene is a function of a Stage. It asks, by raw frames, whatever it likes; everything that is
asked is noted, with what must differ between two brokers (ids, ports, clocks) replaced by words.
"""

import functools
import inspect
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from processes import Node, now_ms
from raw_client import ConnectionClosedError, RawClient
from waiting import eventually

HOUR_MS = 3_600_000
ZERO_ID = bytes(16)
_scene_numbers = itertools.count(1)

# The newest versions that are asked where the version is not the point.
PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS = 18, 19, 20, 21
INIT_PRODUCER_ID, OFFSET_FOR_LEADER_EPOCH = 22, 23
DESCRIBE_CONFIGS, ALTER_CONFIGS, DESCRIBE_LOG_DIRS, CREATE_PARTITIONS = 32, 33, 35, 37
INCREMENTAL_ALTER_CONFIGS, DESCRIBE_QUORUM, UPDATE_FEATURES = 44, 55, 57
DESCRIBE_CLUSTER, DESCRIBE_PRODUCERS, LIST_CONFIG_RESOURCES, DESCRIBE_TOPIC_PARTITIONS = (
    60,
    61,
    74,
    75,
)


@dataclass(frozen=True, slots=True)
class Both:
    kafka: Node
    pykraft: Node


class Stage:
    """One broker, one connection, and the notes of what it answered."""

    def __init__(self, node: Node, number: int) -> None:
        self.node = node
        self.notes: list[Any] = []
        self.client = RawClient(node.port)
        self._prefix = f"scene{number}"
        self._names: dict[bytes, str] = {}
        self._ids: dict[str, bytes] = {}

    def topic(self, name: str = "t", partitions: int = 1, **configs: str) -> str:
        """Create a topic of this scene's own."""
        full = f"{self._prefix}-{name}"
        wanted = {
            "name": full,
            "num_partitions": partitions,
            "replication_factor": 1,
            "configs": [{"name": k.replace("_", "."), "value": v} for k, v in configs.items()],
        }
        (made,) = self.client.ask(CREATE_TOPICS, 7, topics=[wanted], timeout=10_000)["topics"]
        assert made["error_code"] == 0, made
        self.know(full, made["topic_id"])
        eventually(lambda: self._is_led(full, partitions), within_s=20, because=f"{full} is led")
        return full

    def _is_led(self, topic: str, partitions: int) -> bool:
        """Whether every partition answers; Kafka shows a leader a little before it serves one."""
        wanted = [{"partition_index": index, "timestamp": -1} for index in range(partitions)]
        place = [{"name": topic, "partitions": wanted}]
        answer = self.client.ask(LIST_OFFSETS, 7, replica_id=-1, topics=place)
        return all(each["error_code"] == 0 for each in answer["topics"][0]["partitions"])

    def new_producer(self) -> int:
        return new_producer(self.client)

    def know(self, name: str, topic_id: bytes) -> None:
        self._names[topic_id] = name
        self._ids[name] = topic_id

    def name(self, name: str) -> str:
        """The name that a topic of this scene would have."""
        return f"{self._prefix}-{name}"

    def topic_id(self, name: str) -> bytes:
        return self._ids.get(name, b"\x07" * 16)

    def ask(self, api_key: int, version: int, **values: object) -> dict[str, Any]:
        """Ask and note the answer; an end of the connection is an answer too."""
        try:
            answer = self.client.ask(api_key, version, **values)
        except ConnectionClosedError:
            self.notes.append("closed")
            self.client.close()
            self.client = RawClient(self.node.port)
            return {}
        self.note(answer)
        return answer

    def ask_unnoted(self, api_key: int, version: int, **values: object) -> dict[str, Any]:
        return self.client.ask(api_key, version, **values)

    def note(self, fact: Any) -> None:
        self.notes.append(self._plain("", fact))

    def produce(
        self,
        topic: str,
        records: bytes | None,
        *,
        partition: int = 0,
        version: int = 9,
        acks: int = -1,
    ) -> dict[str, Any]:
        which = {"name": topic} if version < 13 else {"topic_id": self.topic_id(topic)}
        data = [{**which, "partition_data": [{"index": partition, "records": records}]}]
        return self.ask(PRODUCE, version, acks=acks, timeout=10_000, topic_data=data)

    def fill(self, topic: str, *batches: bytes, partition: int = 0) -> None:
        """Append batches that are known to be right, without noting it."""
        for batch in batches:
            data = [{"name": topic, "partition_data": [{"index": partition, "records": batch}]}]
            answer = self.client.ask(PRODUCE, 9, acks=-1, timeout=10_000, topic_data=data)
            (only,) = answer["responses"][0]["partition_responses"]
            assert only["error_code"] == 0, only

    def close(self) -> None:
        self.client.close()

    def _plain(self, field: str, value: Any) -> Any:
        match value:
            case dict():
                return {name: self._plain(name, each) for name, each in value.items()}
            case list():
                items = merged([self._plain(field, each) for each in value])
                # Kafka's order is that of its hash maps; none of it is promised.
                return sorted(items, key=repr) if items and isinstance(items[0], dict) else items
            case bytes() if field.endswith("id"):
                return self._named_id(value)
            case str() if self.node.bootstrap in value:
                return value.replace(self.node.bootstrap, "HERE")
            case str() if str(self.node.data) in value:
                return value.replace(str(self.node.data), "DATA")
            case int() if not isinstance(value, bool):
                return self._number(field, value)
            case _:
                # The words of a message are ours; whether there is one is not.
                return value is not None if field.endswith("error_message") else value

    def _named_id(self, value: bytes) -> str:
        if value == ZERO_ID:
            return "zero id"
        return f"id of {self._names[value]}" if value in self._names else "some id"

    def _number(self, field: str, value: int) -> int | str:
        if field == "port":
            return "own port" if value == self.node.port else "another port"
        if (field == "session_id" and value > 0) or (field == "producer_id" and value >= 0):
            return f"some {field}"
        if abs(value - now_ms()) < HOUR_MS:
            return "now"
        return value


def same_answers(scene: Callable[..., None]) -> Callable[..., None]:
    """A test from a scene: plays it before both and compares the notes, one after another."""

    @functools.wraps(scene)
    def test(both: Both, **parameters: object) -> None:
        number = next(_scene_numbers)
        expected = _play(scene, both.kafka, number, parameters)
        assert expected, "the scene asks nothing"
        given = _play(scene, both.pykraft, number, parameters)
        found = [
            f"answer {index}{path}: Kafka {theirs!r}, pykraft {ours!r}"
            for index, (one, other) in enumerate(itertools.zip_longest(expected, given))
            for path, theirs, ours in differences("", one, other)
        ]
        assert not found, "\n".join(found)

    others = [p for p in inspect.signature(scene).parameters.values() if p.name != "stage"]
    first = inspect.Parameter("both", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    test.__signature__ = inspect.Signature([first, *others])  # type: ignore[attr-defined]
    return test


def merged(items: list[Any]) -> list[Any]:
    """One entry per topic: Kafka splits a topic whose partitions fail at different places."""
    joined: dict[str, Any] = {}
    for item in items:
        inner = item.get("partitions") if isinstance(item, dict) else None
        if not isinstance(inner, list):
            return items
        rest = repr({name: each for name, each in item.items() if name != "partitions"})
        if rest in joined:
            joined[rest]["partitions"] = sorted(joined[rest]["partitions"] + inner, key=repr)
        else:
            joined[rest] = item
    return list(joined.values())


def differences(path: str, theirs: Any, ours: Any) -> list[tuple[str, Any, Any]]:
    """Where two noted answers differ, down to the fields."""
    if isinstance(theirs, dict) and isinstance(ours, dict) and theirs.keys() == ours.keys():
        each = [differences(f"{path}.{name}", theirs[name], ours[name]) for name in theirs]
        return [found for some in each for found in some]
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        each = [
            differences(f"{path}[{at}]", one, other)
            for at, (one, other) in enumerate(zip(theirs, ours, strict=True))
        ]
        return [found for some in each for found in some]
    return [] if theirs == ours else [(path, theirs, ours)]


def _play(
    scene: Callable[..., None], node: Node, number: int, parameters: dict[str, object]
) -> list[Any]:
    stage = Stage(node, number)
    try:
        scene(stage, **parameters)
    finally:
        stage.close()
    return stage.notes


def new_producer(client: RawClient) -> int:
    """An idempotent producer's id; a Kafka that just started must first fetch a block of them."""

    def given() -> list[int]:
        plain = {"transactional_id": None, "transaction_timeout": 60_000}
        answer = client.ask(INIT_PRODUCER_ID, 2, **plain)
        return [answer["producer_id"]] if answer["error_code"] == 0 else []

    return eventually(given, within_s=20, because="a producer id is given")[0]
