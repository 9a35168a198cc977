"""Metadata, v0 to v13.

Behaviour: all topics (null; in v0 the empty list), none, by name, and by id from v12 on (v10 and
v11 have the field but refuse it). A topic that is missing is created if the client and
auto.create.topics.enable allow it; the answer says UNKNOWN_TOPIC_OR_PARTITION and the client comes
again. Addresses are those of the listener that the client came by. Topics that were found come in
the order asked for, the missing after them; ids that nobody knows come first.
Answers for all topics and for one topic are kept as bytes until the metadata change.
Absent: REBOOTSTRAP_REQUIRED (v13), which Kafka 4.3 brokers do not send either.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pykraft.core.controller.image import TopicImage
from pykraft.core.controller.topic_names import check_topic_name
from pykraft.handlers.auto_topics import create_topics
from pykraft.handlers.cluster_view import (
    CLUSTER_OPERATIONS,
    INTERNAL_TOPICS,
    OPERATIONS_NOT_ASKED_FOR,
    TOPIC_OPERATIONS,
    ClusterView,
)
from pykraft.handlers.context import Broker, RequestContext
from pykraft.ids import ZERO_UUID
from pykraft.protocol.decoding import Message
from pykraft.protocol.errors import ErrorCode, KafkaError
from pykraft.protocol.metadata_response import TopicReply, encode_metadata_response

LISTENER_ERRORS_FROM_VERSION = 6
TOPIC_IDS_FROM_VERSION = 12

# Entries of the cache are small for one topic and few for all topics; this bounds both.
CACHE_ENTRIES_MAX = 256
CACHE_BYTES_MAX = 8 << 20


def handle_metadata(
    broker: Broker, context: RequestContext, request: Message
) -> Mapping[str, Any] | None:
    try:
        _check(context.version, request)
    except KafkaError as error:
        context.failed(error.code)
        return _refusal(request, error.code)
    key = _cache_key(context, request)
    answer = broker.metadata_cache.get(key) if key is not None else None
    if answer is None:
        metadata = _Metadata(broker, context, request)
        answer = metadata.encode()
        if key is not None and not metadata.has_errors:
            _remember(broker.metadata_cache, key, answer)
    context.reply_parts((answer,))
    return None


def _check(version: int, request: Message) -> None:
    topics = request.topics or ()
    if version < TOPIC_IDS_FROM_VERSION:
        if any(topic.name is None or topic.topic_id != ZERO_UUID for topic in topics):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        return
    by_id = any(topic.topic_id != ZERO_UUID for topic in topics)
    if not by_id and any(topic.name is None for topic in topics):
        # Neither a name nor an id; Kafka has no better word for it.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)


def _refusal(request: Message, code: ErrorCode) -> Mapping[str, Any]:
    return {
        "error_code": code,
        "topics": [
            {"error_code": code, "name": topic.name or "", "topic_id": topic.topic_id}
            for topic in request.topics
        ],
    }


def _cache_key(context: RequestContext, request: Message) -> tuple[object, ...] | None:
    """None for a request whose answer is not worth keeping."""
    topics = request.topics
    if _wants_all(context.version, request):
        wanted: object = None
    elif len(topics) == 1:
        wanted = (topics[0].name, topics[0].topic_id)
    else:
        return None
    return (
        context.version,
        context.listener,
        wanted,
        request.include_topic_authorized_operations,
        request.include_cluster_authorized_operations,
    )


def _remember(
    cache: dict[tuple[object, ...], bytes], key: tuple[object, ...], answer: bytes
) -> None:
    if len(answer) > CACHE_BYTES_MAX:
        return
    kept = sum(map(len, cache.values()))
    if len(cache) >= CACHE_ENTRIES_MAX or kept + len(answer) > CACHE_BYTES_MAX:
        cache.clear()
    cache[key] = answer


def _wants_all(version: int, request: Message) -> bool:
    return request.topics is None or (version == 0 and not request.topics)


class _Metadata:
    """One answer in the making."""

    def __init__(self, broker: Broker, context: RequestContext, request: Message) -> None:
        self.broker = broker
        self.context = context
        self.request = request
        self.view = ClusterView(broker.image, context.listener)
        self.topic_operations = (
            TOPIC_OPERATIONS
            if request.include_topic_authorized_operations
            else OPERATIONS_NOT_ASKED_FOR
        )
        self.has_errors = False

    def encode(self) -> bytes:
        request, view = self.request, self.view
        return encode_metadata_response(
            self.context.version,
            brokers=[(b.id, e.host, e.port, b.rack) for b, e in view.brokers()],
            cluster_id=self.broker.cluster_id,
            controller_id=view.controller_id(self.broker.node_id),
            topics=self._topics(),
            cluster_authorized_operations=(
                CLUSTER_OPERATIONS
                if request.include_cluster_authorized_operations
                else OPERATIONS_NOT_ASKED_FOR
            ),
        )

    def _topics(self) -> list[TopicReply]:
        if _wants_all(self.context.version, self.request):
            return [self._found(topic) for topic in self.broker.image.topics.values()]
        ids = dict.fromkeys(t.topic_id for t in self.request.topics if t.topic_id != ZERO_UUID)
        if ids:
            # With one id in the request the names in it do not count.
            return self._by_id(ids)
        return self._by_name(dict.fromkeys(topic.name for topic in self.request.topics))

    def _by_id(self, ids: Iterable[bytes]) -> list[TopicReply]:
        known = self.broker.image.topics_by_id
        unknown = [
            self._refused(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
            for topic_id in ids
            if topic_id not in known
        ]
        return unknown + [self._found(known[topic_id]) for topic_id in ids if topic_id in known]

    def _by_name(self, names: Iterable[str]) -> list[TopicReply]:
        known = self.broker.image.topics
        found = [self._found(known[name]) for name in names if name in known]
        missing = [name for name in names if name not in known]
        if not missing:
            return found
        legal = [name for name in missing if _is_legal(name)]
        settings = self.broker.settings
        if legal and self.request.allow_auto_topic_creation and settings.auto_create_topics_enable:
            create_topics(self.broker, legal)
        legal_names = frozenset(legal)
        return found + [
            self._refused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if name in legal_names
                else ErrorCode.INVALID_TOPIC_EXCEPTION,
                name,
            )
            for name in missing
        ]

    def _found(self, topic: TopicImage) -> TopicReply:
        version, view = self.context.version, self.view
        partitions = topic.partitions.items()
        if version == 0:
            views = [view.partition_v0(index, partition) for index, partition in partitions]
        else:
            tells_listener = version >= LISTENER_ERRORS_FROM_VERSION
            views = [
                view.partition(index, partition, tells_listener=tells_listener)
                for index, partition in partitions
            ]
        is_internal = topic.name in INTERNAL_TOPICS
        return (ErrorCode.NONE, topic.name, topic.id, is_internal, views, self.topic_operations)

    def _refused(
        self, code: ErrorCode, name: str | None, topic_id: bytes = ZERO_UUID
    ) -> TopicReply:
        self.has_errors = True
        self.context.failed(code)
        operations = OPERATIONS_NOT_ASKED_FOR if name is None else self.topic_operations
        return (code, name, topic_id, name in INTERNAL_TOPICS, (), operations)


def _is_legal(name: str) -> bool:
    try:
        check_topic_name(name)
    except KafkaError:
        return False
    return True
