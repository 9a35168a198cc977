"""CreateTopics and DeleteTopics.

Behaviour: Kafka 4.3's checks in Kafka's order, its codes and messages; each topic succeeds or fails
on its own, except that a request for too many partitions fails as a whole.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pykraft import configs
from pykraft.core.controller.assignments import Assigner, partition_records
from pykraft.core.controller.configs import ConfigControl, topic_config_records
from pykraft.core.controller.image import MetadataImage, TopicImage
from pykraft.core.controller.outcome import ControllerConfig, Outcome
from pykraft.core.controller.records import RECORDS_PER_OPERATION_MAX
from pykraft.core.controller.topic_names import (
    CLUSTER_METADATA,
    check_topic_name,
    collisions,
    metric_name,
)
from pykraft.ids import ZERO_UUID, Uuid
from pykraft.protocol import metadata_records as md
from pykraft.protocol.errors import ErrorCode, KafkaError
from pykraft.protocol.metadata_records import MetadataRecord

PARTITIONS_PER_REQUEST_MAX = 10_000

Reply = dict[str, Any]
T = TypeVar("T", bound=Hashable)


@dataclass(slots=True)
class TopicControl:
    image: MetadataImage
    config: ControllerConfig
    configs: ConfigControl
    assigner: Assigner
    new_uuid: Callable[[], Uuid]

    # CreateTopics

    def create_topics(self, request: Any) -> Outcome:
        topics = list(request.topics)
        if self._partitions_wanted(topics) > PARTITIONS_PER_REQUEST_MAX:
            message = "Excessively large number of partitions per request."
            return self._refuse_creation(topics, message)
        repeated = _repeated(topic.name for topic in topics)
        taken = collisions(self.image.topics)
        records: list[MetadataRecord] = []
        replies: list[Reply] = []
        for topic in topics:
            if topic.name in repeated:
                continue
            try:
                created, reply = self._create(topic, taken)
            except KafkaError as error:
                replies.append(_not_created(topic.name, error.code, error.message))
            else:
                records += created
                replies.append(reply)
        if len(records) > RECORDS_PER_OPERATION_MAX:
            return self._refuse_creation(
                topics, "Unable to perform excessively large batch operation."
            )
        for name in repeated:
            replies.append(_not_created(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        return Outcome([] if request.validate_only else records, {"topics": replies})

    def _partitions_wanted(self, topics: Sequence[Any]) -> int:
        total = 0
        for topic in topics:
            if topic.assignments:
                total += len(topic.assignments)
            elif topic.num_partitions == -1:
                total += self.config.num_partitions
            else:
                total += max(topic.num_partitions, 0)
        return total

    def _refuse_creation(self, topics: Sequence[Any], message: str) -> Outcome:
        names = dict.fromkeys(topic.name for topic in topics)
        code = ErrorCode.POLICY_VIOLATION
        return Outcome(reply={"topics": [_not_created(name, code, message) for name in names]})

    def _create(
        self, topic: Any, taken: Mapping[str, list[str]]
    ) -> tuple[list[MetadataRecord], Reply]:
        self._check_new_name(topic.name, taken)
        overrides: dict[str, str | None] = {entry.name: entry.value for entry in topic.configs}
        layers = self.configs.layers()
        configs.validate_topic_configs(overrides, layers)
        placed = self._place(topic)
        topic_id = self.new_uuid()
        values = {name: value for name, value in overrides.items() if value is not None}
        records: list[MetadataRecord] = [md.TopicRecord(name=topic.name, topic_id=topic_id)]
        records += topic_config_records(topic.name, values, image=self.image)
        records += partition_records(self.image, topic_id, placed)
        return records, {
            "name": topic.name,
            "topic_id": topic_id,
            "error_code": ErrorCode.NONE,
            "error_message": None,
            "topic_config_error_code": ErrorCode.NONE,
            "num_partitions": len(placed),
            "replication_factor": len(placed[0]),
            "configs": configs.created_topic_configs(values, layers),
        }

    def _check_new_name(self, name: str, taken: Mapping[str, list[str]]) -> None:
        if name == CLUSTER_METADATA:
            message = f"Creation of internal topic {name} is prohibited."
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        check_topic_name(name)
        if name in self.image.topics:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        others = taken.get(metric_name(name), [])
        if others:
            message = f"Topic '{name}' collides with existing topic: {', '.join(sorted(others))}"
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)

    def _place(self, topic: Any) -> dict[int, tuple[int, ...]]:
        """The replicas of each partition: as the client wishes, or as placement finds."""
        if topic.assignments:
            return self.assigner.check_new_topic(topic)
        replication_factor = topic.replication_factor
        if replication_factor < -1 or replication_factor == 0:
            message = "Replication factor must be larger than 0, or -1 to use the default value."
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
        if topic.num_partitions < -1 or topic.num_partitions == 0:
            message = "Number of partitions was set to an invalid non-positive value."
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, message)
        if replication_factor == -1:
            replication_factor = self.config.default_replication_factor
        count = topic.num_partitions
        if count == -1:
            count = self.config.num_partitions
        return dict(enumerate(self.assigner.place(count, replication_factor)))

    # DeleteTopics

    def delete_topics(self, request: Any, version: int) -> Outcome:
        wanted = [(topic.name, Uuid(topic.topic_id)) for topic in request.topics or ()]
        wanted += [(name, ZERO_UUID) for name in request.topic_names or ()]
        if not self.config.delete_topic_enable:
            return _deletion_disabled(wanted, version)
        records: list[MetadataRecord] = []
        replies: list[Reply] = []
        found: dict[bytes, str | None] = {}
        repeated = _repeated(wanted)
        for wish in (*(wish for wish in wanted if wish not in repeated), *repeated):
            try:
                topic = self._to_delete(wish, wish in repeated)
                if topic.id in found:
                    found[topic.id] = topic.name
                    continue
            except KafkaError as error:
                replies.append(_deletion(*wish, error.code, error.message))
            else:
                found[topic.id] = None
        for topic_id, twice in found.items():
            topic = self.image.topics_by_id[topic_id]
            if twice is None:
                records.append(md.RemoveTopicRecord(topic_id=topic.id))
                replies.append(_deletion(topic.name, topic.id))
            else:
                replies.append(_deletion(twice, topic.id, ErrorCode.INVALID_REQUEST, _TWICE))
        return Outcome(records, {"responses": replies})

    def _to_delete(self, wish: tuple[str | None, Uuid], is_repeated: bool) -> TopicImage:
        name, topic_id = wish
        has_id = topic_id != ZERO_UUID
        if name is None and not has_id:
            raise _bad_request("Neither topic name nor id were specified.")
        if name is not None and has_id:
            raise _bad_request("You may not specify both topic name and topic id.")
        if is_repeated:
            raise _bad_request(f"Duplicate topic {'id' if has_id else 'name'}.")
        if name is None:
            topic = self.image.topics_by_id.get(topic_id)
            if topic is None:
                message = "This server does not host this topic ID."
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, message)
            return topic
        topic = self.image.topics.get(name)
        if topic is None:
            message = "This server does not host this topic-partition."
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        return topic


_TWICE = "The provided topic name maps to an ID that was already supplied."


def _bad_request(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _repeated(values: Iterable[T]) -> dict[T, None]:
    """What occurs more than once, in order of appearance."""
    return {value: None for value, count in Counter(values).items() if count > 1}


def _not_created(name: str, code: ErrorCode, message: str | None) -> Reply:
    return {
        "name": name,
        "topic_id": ZERO_UUID,
        "error_code": code,
        "error_message": message,
        "topic_config_error_code": ErrorCode.NONE,
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": [],
    }


def _deletion(
    name: str | None,
    topic_id: Uuid,
    code: ErrorCode = ErrorCode.NONE,
    message: str | None = None,
) -> Reply:
    return {"name": name, "topic_id": topic_id, "error_code": code, "error_message": message}


def _deletion_disabled(wanted: Iterable[tuple[str | None, Uuid]], version: int) -> Outcome:
    # The code exists since version 3; older clients know only that the request was bad.
    code = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
    message = "Topic deletion is disabled."
    return Outcome(reply={"responses": [_deletion(*wish, code, message) for wish in wanted]})
