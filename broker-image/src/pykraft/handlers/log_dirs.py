"""DescribeLogDirs, v1 to v5.

Behaviour: the hosted partitions that were asked for (null: all) by log directory, with the size of
their segments; the bytes of the volume from v4 on, cordoned directories (KIP-1066) from v5 on. A
directory that failed is shown with KAFKA_STORAGE_ERROR and without partitions.
Absent: future replicas (AlterReplicaLogDirs is not served), hence is_future_key is always false.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pykraft.core.replication.partition import Partition
from pykraft.handlers.context import Broker, LogDirectory, RequestContext
from pykraft.ids import Uuid
from pykraft.protocol.decoding import Message
from pykraft.protocol.errors import ErrorCode


def handle_describe_log_dirs(
    broker: Broker, context: RequestContext, request: Message
) -> Mapping[str, Any]:
    wanted = _wanted(broker, request)
    cordoned = _cordoned(broker)
    results = []
    for directory in broker.log_dirs.describe():
        if not directory.online:
            context.failed(ErrorCode.KAFKA_STORAGE_ERROR)
        results.append(_describe(directory, wanted, directory.id in cordoned))
    return {"error_code": ErrorCode.NONE, "results": results}


def _wanted(broker: Broker, request: Message) -> list[Partition]:
    if request.topics is None:
        return list(broker.replicas)
    named = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    hosted = broker.replicas.by_name
    return [
        hosted[topic][index]
        for topic, index in sorted(named)
        if topic in hosted and index in hosted[topic]
    ]


def _cordoned(broker: Broker) -> Sequence[Uuid]:
    registration = broker.image.brokers.get(broker.node_id)
    return (registration.cordoned_log_dirs or ()) if registration is not None else ()


def _describe(
    directory: LogDirectory, wanted: list[Partition], is_cordoned: bool
) -> dict[str, Any]:
    topics: dict[str, list[dict[str, Any]]] = {}
    if directory.online:
        for partition in wanted:
            if partition.log.name in directory.logs:
                topics.setdefault(partition.topic, []).append(_describe_partition(partition))
    return {
        "error_code": ErrorCode.NONE if directory.online else ErrorCode.KAFKA_STORAGE_ERROR,
        "log_dir": directory.path,
        "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
        "total_bytes": directory.total_bytes,
        "usable_bytes": directory.usable_bytes,
        "is_cordoned": is_cordoned,
    }


def _describe_partition(partition: Partition) -> dict[str, Any]:
    return {
        "partition_index": partition.index,
        "partition_size": partition.log.size,
        # How far this replica is behind what is committed; a leader never is.
        "offset_lag": max(partition.high_watermark - partition.log.log_end_offset, 0),
        "is_future_key": False,
    }
