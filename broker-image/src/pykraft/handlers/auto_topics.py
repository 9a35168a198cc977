"""Topics that come into being because somebody asked for them (auto.create.topics.enable).

Internal topics are created in the shape that their coordinator needs, whoever asks first.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from pykraft.configs import Value, effective_broker_configs
from pykraft.handlers.configs import broker_layers
from pykraft.handlers.context import Broker
from pykraft.protocol.decoding import make_request
from pykraft.protocol.errors import ErrorCode, KafkaError
from pykraft.protocol.versions import ApiKey

log = logging.getLogger("pykraft.auto_topics")

# What does not fit is created when its client asks again.
BEING_CREATED_MAX = 1_000


def create_topics(broker: Broker, names: Iterable[str]) -> None:
    """Ask the controller, and do not wait: clients ask for metadata again until it is there.

    They ask often, so what is on its way is not asked for again.
    """
    creating = broker.topics_being_created
    wanted = list(dict.fromkeys(name for name in names if name not in creating))
    del wanted[max(0, BEING_CREATED_MAX - len(creating)) :]
    if not wanted:
        return
    settings = effective_broker_configs(broker_layers(broker))
    topics = [_shape(name, settings) for name in wanted]
    request = make_request(
        ApiKey.CREATE_TOPICS, {"topics": topics, "timeout": 0, "validate_only": False}
    )

    def done(reply: Mapping[str, Any]) -> None:
        creating.difference_update(wanted)
        _log_failures(reply)

    creating.update(wanted)
    try:
        broker.controller.submit(lambda controller: controller.create_topics(request), done)
    except KafkaError as error:
        creating.difference_update(wanted)
        log.warning("no topic is created: %s", error)


def _log_failures(reply: Mapping[str, Any]) -> None:
    """In one line, however many a client has asked for."""
    failed = [
        topic
        for topic in reply["topics"]
        if topic["error_code"] not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    ]
    if failed:
        log.warning(
            "%d of %d topics were not created, the first is %s: %s",
            len(failed),
            len(reply["topics"]),
            failed[0]["name"],
            failed[0]["error_message"],
        )


def _shape(name: str, settings: Mapping[str, Value | None]) -> dict[str, Any]:
    partitions, replicas, configs = _INTERNAL.get(name, _ORDINARY)
    return {
        "name": name,
        "num_partitions": settings[partitions],
        "replication_factor": settings[replicas],
        "assignments": [],
        "configs": [
            {"name": key, "value": text if text is not None else str(settings[source])}
            for key, (text, source) in configs.items()
        ],
    }


# The config that says how many partitions, the one that says how many replicas, and the topic's own
# configs: a text, or the broker config that it comes from.
_Configs = dict[str, tuple[str | None, str]]
_Shape = tuple[str, str, _Configs]

_ORDINARY: _Shape = ("num.partitions", "default.replication.factor", {})
_INTERNAL: dict[str, _Shape] = {
    "__consumer_offsets": (
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        {
            "cleanup.policy": ("compact", ""),
            "compression.type": ("producer", ""),
            "segment.bytes": (None, "offsets.topic.segment.bytes"),
        },
    ),
    "__transaction_state": (
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
        {
            "cleanup.policy": ("compact", ""),
            "compression.type": ("uncompressed", ""),
            "min.insync.replicas": (None, "transaction.state.log.min.isr"),
            "segment.bytes": (None, "transaction.state.log.segment.bytes"),
            "unclean.leader.election.enable": ("false", ""),
        },
    ),
    "__share_group_state": (
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.replication.factor",
        {
            "cleanup.policy": ("delete", ""),
            "compression.type": ("producer", ""),
            "min.insync.replicas": (None, "share.coordinator.state.topic.min.isr"),
            "retention.ms": ("-1", ""),
            "segment.bytes": (None, "share.coordinator.state.topic.segment.bytes"),
        },
    ),
}
