"""CreateTopics, v2 to v7; DeleteTopics, v1 to v6; CreatePartitions, v0 to v3.

Behaviour: all of it is the controller's (core/controller): checks, placement, records. The answer
is sent when the records are committed; the broker has then applied them, too, if it is the same
node, so that a client that goes on at once finds what it created.
Absent: throttling by quota (controller_mutation_rate), and the time-out, see submission.py.
"""

from collections.abc import Mapping
from typing import Any

from pykraft.handlers.context import Broker, RequestContext
from pykraft.handlers.submission import refuse_each, submit
from pykraft.protocol.decoding import Message


def handle_create_topics(
    broker: Broker, context: RequestContext, request: Message
) -> Mapping[str, Any] | None:
    submit(
        broker,
        context,
        lambda controller: controller.create_topics(request),
        refuse_each("topics", ({"name": topic.name} for topic in request.topics)),
    )
    return None


def handle_delete_topics(
    broker: Broker, context: RequestContext, request: Message
) -> Mapping[str, Any] | None:
    version = context.version
    asked = [{"name": topic.name, "topic_id": topic.topic_id} for topic in request.topics]
    asked += [{"name": name} for name in request.topic_names]
    submit(
        broker,
        context,
        lambda controller: controller.delete_topics(request, version),
        refuse_each("responses", asked),
    )
    return None


def handle_create_partitions(
    broker: Broker, context: RequestContext, request: Message
) -> Mapping[str, Any] | None:
    submit(
        broker,
        context,
        lambda controller: controller.create_partitions(request),
        refuse_each("results", ({"name": topic.name} for topic in request.topics)),
    )
    return None
