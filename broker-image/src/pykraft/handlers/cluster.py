"""DescribeTopicPartitions, v0, and DescribeCluster, v0 to v2.

Behaviour: DescribeTopicPartitions (KIP-966) gives topics in the order of their names, at most
max.request.partition.size.limit partitions at a time, and a cursor to go on with. DescribeCluster
tells the brokers of the client's listener, from v2 on also the fenced ones if asked.
Absent: DescribeCluster of controllers, which only a controller's listener would answer; here it is
MISMATCHED_ENDPOINT_TYPE, as on a broker's listener of Kafka.
"""

from collections.abc import Mapping
from typing import Any

from pykraft.core.controller.image import PartitionImage
from pykraft.core.controller.topic_names import check_topic_name
from pykraft.handlers.cluster_view import (
    CLUSTER_OPERATIONS,
    INTERNAL_TOPICS,
    OPERATIONS_NOT_ASKED_FOR,
    TOPIC_OPERATIONS,
    ClusterView,
)
from pykraft.handlers.context import Broker, RequestContext
from pykraft.protocol.decoding import Message
from pykraft.protocol.errors import ErrorCode, KafkaError

BROKERS = 1
CONTROLLERS = 2


# DescribeTopicPartitions


def handle_describe_topic_partitions(
    broker: Broker, context: RequestContext, request: Message
) -> Mapping[str, Any]:
    try:
        names = _names_in_order(broker, request)
    except KafkaError as error:
        context.failed(error.code)
        refused = [{"error_code": error.code, "name": t.name} for t in request.topics]
        return {"topics": [r | _NOT_DESCRIBED for r in refused]}
    limit_max = broker.settings.max_request_partition_size_limit
    page = _Page(broker, context, max(min(request.response_partition_limit, limit_max), 1))
    for name in names:
        first = 0
        if request.cursor is not None and request.cursor.topic_name == name:
            first = request.cursor.partition_index
        if not page.add(name, first):
            break
    return {"topics": page.topics, "next_cursor": page.next_cursor}


_NOT_DESCRIBED = {"topic_authorized_operations": OPERATIONS_NOT_ASKED_FOR}


def _names_in_order(broker: Broker, request: Message) -> list[str]:
    """The names from the cursor on. An empty request asks for all topics."""
    cursor = request.cursor
    named = {topic.name for topic in request.topics}
    names = sorted(named or broker.image.topics)
    if cursor is None:
        return names
    if cursor.partition_index < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the cursor's partition is below 0")
    # Among all topics the cursor's may be gone meanwhile; among named ones it must be one of them.
    if named and cursor.topic_name not in named:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the cursor's topic was not asked for")
    return [name for name in names if name >= cursor.topic_name]


class _Page:
    """As many partitions as fit, and where the next page begins."""

    def __init__(self, broker: Broker, context: RequestContext, limit: int) -> None:
        self.image = broker.image
        self.context = context
        self.view = ClusterView(broker.image, context.listener)
        self.left = limit
        self.topics: list[dict[str, Any]] = []
        self.next_cursor: dict[str, Any] | None = None

    def add(self, name: str, first: int) -> bool:
        """False when the page is full; the cursor is set then."""
        if self.left == 0:
            self._end_before(name, first)
            return False
        topic = self.image.topics.get(name)
        if topic is None:
            self.topics.append(self._missing(name))
            return True
        # A topic's partitions are numbered without gaps.
        end = min(len(topic.partitions), first + self.left)
        self.topics.append(
            {
                "error_code": ErrorCode.NONE,
                "name": name,
                "topic_id": topic.id,
                "is_internal": name in INTERNAL_TOPICS,
                "partitions": [
                    self._partition(index, topic.partitions[index]) for index in range(first, end)
                ],
                "topic_authorized_operations": TOPIC_OPERATIONS,
            }
        )
        self.left -= max(end - first, 0)
        if end < len(topic.partitions):
            self._end_before(name, end)
            return False
        return True

    def _end_before(self, name: str, index: int) -> None:
        self.next_cursor = {"topic_name": name, "partition_index": index}

    def _missing(self, name: str) -> dict[str, Any]:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        try:
            check_topic_name(name)
        except KafkaError as error:
            code = error.code
        self.context.failed(code)
        return {
            "error_code": code,
            "name": name,
            "is_internal": name in INTERNAL_TOPICS,
            "topic_authorized_operations": TOPIC_OPERATIONS,
        }

    def _partition(self, index: int, partition: PartitionImage) -> dict[str, Any]:
        view = self.view.partition(index, partition)
        return {
            "error_code": view.error,
            "partition_index": index,
            "leader_id": view.leader,
            "leader_epoch": view.leader_epoch,
            "replica_nodes": view.replicas,
            "isr_nodes": view.isr,
            "eligible_leader_replicas": partition.elr,
            "last_known_elr": partition.last_known_elr,
            "offline_replicas": view.offline,
        }


# DescribeCluster


def handle_describe_cluster(
    broker: Broker, context: RequestContext, request: Message
) -> Mapping[str, Any]:
    if request.endpoint_type == CONTROLLERS:
        return _refuse_endpoint(
            context,
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "controllers are asked for on a broker's listener",
        )
    if request.endpoint_type != BROKERS:
        return _refuse_endpoint(
            context,
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            f"Unsupported endpoint type {request.endpoint_type}",
        )
    view = ClusterView(broker.image, context.listener)
    return {
        "endpoint_type": BROKERS,
        "cluster_id": broker.cluster_id,
        "controller_id": view.controller_id(broker.node_id),
        "brokers": [
            {
                "broker_id": known.id,
                "host": endpoint.host,
                "port": endpoint.port,
                "rack": known.rack,
                "is_fenced": known.fenced,
            }
            for known, endpoint in view.brokers(with_fenced=request.include_fenced_brokers)
        ],
        "cluster_authorized_operations": (
            CLUSTER_OPERATIONS
            if request.include_cluster_authorized_operations
            else OPERATIONS_NOT_ASKED_FOR
        ),
    }


def _refuse_endpoint(context: RequestContext, code: ErrorCode, message: str) -> Mapping[str, Any]:
    context.failed(code)
    return {
        "error_code": code,
        "error_message": message,
        "endpoint_type": BROKERS,
        "controller_id": -1,
        "cluster_authorized_operations": OPERATIONS_NOT_ASKED_FOR,
    }
