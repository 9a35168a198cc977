"""Tells the controller which log directory has which log (KIP-858).

The controller places a replica on a broker; a broker with several directories chooses among them.
When one fails, the broker names the directory alone, and the controller finds new leaders for what
was in it: so it has to know beforehand.
"""

from collections.abc import Iterable

from pykraft.core.controller.partitions import directory_of
from pykraft.core.replication.partition import Partition
from pykraft.handlers.context import Broker
from pykraft.ids import Uuid
from pykraft.protocol.decoding import make_request
from pykraft.protocol.errors import KafkaError
from pykraft.protocol.versions import ApiKey
from pykraft.runtime.log_manager import LogManager

Assignments = dict[Uuid, dict[Uuid, list[int]]]


def tell_directories(broker: Broker, logs: LogManager, partitions: Iterable[Partition]) -> None:
    """Say where these logs are, as far as the metadata have it otherwise."""
    unknown = _unknown(broker, logs, partitions)
    registered = broker.image.brokers.get(broker.node_id)
    if not unknown or registered is None:
        return
    request = make_request(
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        {
            "broker_id": broker.node_id,
            "broker_epoch": registered.epoch,
            "directories": [
                {"id": directory, "topics": [_topic(*topic) for topic in topics.items()]}
                for directory, topics in unknown.items()
            ],
        },
    )
    try:
        broker.controller.submit(
            lambda controller: controller.assign_replicas_to_dirs(request), lambda _: None
        )
    except KafkaError:
        return  # There is no active controller just now; the next start tells it.


def _unknown(broker: Broker, logs: LogManager, partitions: Iterable[Partition]) -> Assignments:
    unknown: Assignments = {}
    for partition in partitions:
        found = logs.find(partition.topic, partition.index)
        topic = broker.image.topics_by_id.get(partition.topic_id)
        if found is None or topic is None or not found[0].online:
            continue
        directory = found[0].id
        if directory_of(topic.partitions[partition.index], broker.node_id) != directory:
            topics = unknown.setdefault(directory, {})
            topics.setdefault(partition.topic_id, []).append(partition.index)
    return unknown


def _topic(topic_id: Uuid, indexes: list[int]) -> dict[str, object]:
    return {
        "topic_id": topic_id,
        "partitions": [{"partition_index": index} for index in indexes],
    }
