"""DeleteRecords, v0 to v2.

Behaviour: moves the log start offset of a partition forward, never back; -1 stands for the high
watermark. Above the high watermark is OFFSET_OUT_OF_RANGE; internal topics are refused with
INVALID_TOPIC_EXCEPTION, topics that are only compacted with POLICY_VIOLATION. Segments that lie
wholly below the new start go with the next round of retention.
Absent: waiting for followers (they come with replication), hence the time-out is never reached.
"""

from collections.abc import Mapping
from typing import Any

from pykraft.core.replication.partition import Partition
from pykraft.core.storage import StorageError
from pykraft.handlers.cluster_view import INTERNAL_TOPICS
from pykraft.handlers.context import Broker, RequestContext
from pykraft.protocol.decoding import Message
from pykraft.protocol.errors import ErrorCode, KafkaError

HIGH_WATERMARK = -1
UNKNOWN_LOW_WATERMARK = -1


def handle_delete_records(
    broker: Broker, context: RequestContext, request: Message
) -> Mapping[str, Any]:
    # Later entries of a partition that is named twice count, as in Kafka.
    offsets: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        of_topic = offsets.setdefault(topic.name, {})
        of_topic.update((wanted.partition_index, wanted.offset) for wanted in topic.partitions)
    return {
        "topics": [
            {
                "name": topic,
                "partitions": [
                    _delete_before(broker, context, topic, index, offset)
                    for index, offset in of_topic.items()
                ],
            }
            for topic, of_topic in offsets.items()
        ]
    }


def _delete_before(
    broker: Broker, context: RequestContext, topic: str, index: int, offset: int
) -> Mapping[str, Any]:
    error = ErrorCode.NONE
    low_watermark = UNKNOWN_LOW_WATERMARK
    try:
        partition = _deletable(broker, topic, index)
        low_watermark = _move_log_start(partition, offset)
    except KafkaError as refused:
        error = refused.code
        context.failed(error)
    return {"partition_index": index, "low_watermark": low_watermark, "error_code": error}


def _deletable(broker: Broker, topic: str, index: int) -> Partition:
    partition = broker.replicas.find(topic, index)
    if topic in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    partition.check_leader()
    if partition.log.config.cleanup_policy == {"compact"}:
        raise KafkaError(ErrorCode.POLICY_VIOLATION)
    return partition


def _move_log_start(partition: Partition, offset: int) -> int:
    """Returns the new low watermark, which with one replica is the log start offset."""
    if offset == HIGH_WATERMARK:
        offset = partition.high_watermark
    if not 0 <= offset <= partition.high_watermark:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    try:
        if offset > partition.log.log_start_offset:
            partition.log.delete_records_before(offset)
    except StorageError as error:
        partition.on_storage_error(partition, error)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
    return partition.log.log_start_offset
