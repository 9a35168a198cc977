"""InitProducerId, v0 to v5, and DescribeProducers, v0.

Behaviour: an idempotent producer gets a fresh id with epoch 0, whatever id and epoch it had before
(KIP-360); an id without its epoch, or the reverse, is INVALID_REQUEST. DescribeProducers shows the
producers whose sequence numbers a partition remembers, up to a bound for all that one request asks.
Absent: transactions. There is no transaction coordinator yet, and FindCoordinator is not announced,
so no client gets as far as to ask here with a transactional id. One that does all the same is told
UNSUPPORTED_VERSION, which clients take as final; NOT_COORDINATOR, as Kafka has it, or
COORDINATOR_NOT_AVAILABLE would have them look for a coordinator for ever.
"""

from collections.abc import Mapping
from typing import Any

from pykraft.core.controller.topic_names import check_topic_name
from pykraft.core.replication.partition import Partition
from pykraft.handlers.context import Broker, RequestContext
from pykraft.protocol.decoding import Message
from pykraft.protocol.errors import ErrorCode, KafkaError

NO_PRODUCER_ID = -1
NO_EPOCH = -1
# Of one DescribeProducers; a single partition is always told in full.
PRODUCERS_TOLD_MAX = 50_000


def handle_init_producer_id(
    broker: Broker, context: RequestContext, request: Message
) -> Mapping[str, Any] | None:
    refusal = _refusal(request)
    if refusal is not None:
        return _no_id(context, refusal)
    broker.producer_ids.next(
        lambda producer_id: context.reply({"producer_id": producer_id, "producer_epoch": 0}),
        lambda code: context.reply(_no_id(context, code)),
    )
    return None


def _refusal(request: Message) -> ErrorCode | None:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id == "":
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is not None:
        return ErrorCode.UNSUPPORTED_VERSION
    return None


def _no_id(context: RequestContext, code: int) -> Mapping[str, Any]:
    context.failed(code)
    return {"error_code": code, "producer_id": NO_PRODUCER_ID, "producer_epoch": NO_EPOCH}


def handle_describe_producers(
    broker: Broker, context: RequestContext, request: Message
) -> Mapping[str, Any]:
    describer = _Describer(broker, context)
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    describer.describe(topic.name, index) for index in topic.partition_indexes
                ],
            }
            for topic in request.topics
        ]
    }


class _Describer:
    """A partition that is named again is answered again, as in Kafka, but worked out once. Only the
    answer grows with what is asked for, and it has a bound."""

    def __init__(self, broker: Broker, context: RequestContext) -> None:
        self.broker = broker
        self.context = context
        self.made: dict[Partition, list[dict[str, Any]]] = {}
        # Producers in the answer so far.
        self.told = 0

    def describe(self, topic: str, index: int) -> dict[str, Any]:
        answer: dict[str, Any] = {"partition_index": index, "error_code": ErrorCode.NONE}
        try:
            answer["active_producers"] = self._producers(self._partition(topic, index))
        except KafkaError as error:
            self.context.failed(error.code)
            answer |= {"error_code": error.code, "error_message": error.message}
        return answer

    def _partition(self, topic: str, index: int) -> Partition:
        check_topic_name(topic)
        if topic not in self.broker.replicas.by_name:
            # Of a partition that a known topic does not have, Kafka tells the code alone.
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no topic {topic} is known")
        partition = self.broker.replicas.find(topic, index)
        partition.check_leader()
        return partition

    def _producers(self, partition: Partition) -> list[dict[str, Any]]:
        told = self.told + len(partition.log.producers.by_id)
        if self.told and told > PRODUCERS_TOLD_MAX:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "too many producers in one answer")
        self.told = told
        if partition not in self.made:
            self.made[partition] = _active_producers(partition)
        return self.made[partition]


def _active_producers(partition: Partition) -> list[dict[str, Any]]:
    return [
        {
            "producer_id": producer_id,
            "producer_epoch": producer.epoch,
            "last_sequence": producer.last_sequence,
            "last_timestamp": producer.last_timestamp_ms,
            "coordinator_epoch": producer.coordinator_epoch,
            "current_txn_start_offset": producer.transaction_first_offset,
        }
        for producer_id, producer in partition.log.producers.by_id.items()
    ]
