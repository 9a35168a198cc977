"""DescribeQuorum, v0 to v2, and UpdateFeatures, v0 to v2.

Behaviour: DescribeQuorum tells leader, epoch, high watermark and voters of `__cluster_metadata`,
partition 0; anything else that is asked for is UNKNOWN_TOPIC_OR_PARTITION, for the whole request.
UpdateFeatures is the controller's to decide: all updates succeed or none does; v2 has no results of
single features, so none are sent.
Absent: observers, since this quorum has no node but its voter.
"""

from collections.abc import Mapping
from typing import Any

from pykraft.core.controller.topic_names import CLUSTER_METADATA
from pykraft.handlers.context import Broker, RequestContext
from pykraft.handlers.submission import submit
from pykraft.protocol.decoding import Message
from pykraft.protocol.errors import ErrorCode


def handle_describe_quorum(
    broker: Broker, context: RequestContext, request: Message
) -> Mapping[str, Any]:
    asked = [(t.topic_name, p.partition_index) for t in request.topics for p in t.partitions]
    if asked != [(CLUSTER_METADATA, 0)]:
        return _unknown(context, request)
    return broker.controller.describe_quorum()


def _unknown(context: RequestContext, request: Message) -> Mapping[str, Any]:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if request.topics:
        context.failed(code)
    return {
        "error_message": "",
        "topics": [
            {
                "topic_name": topic.topic_name,
                "partitions": [
                    {
                        "partition_index": partition.partition_index,
                        "error_code": code,
                        "error_message": "not a partition of the cluster's metadata",
                    }
                    for partition in topic.partitions
                ],
            }
            for topic in request.topics
        ],
    }


def handle_update_features(
    broker: Broker, context: RequestContext, request: Message
) -> Mapping[str, Any] | None:
    submit(
        broker,
        context,
        lambda controller: controller.update_features(request),
        lambda error: {"error_code": error.code, "error_message": error.message},
    )
    return None
