"""DescribeConfigs, v1 to v4; AlterConfigs, v0 to v2; IncrementalAlterConfigs, v0 and v1;
ListConfigResources, v0 and v1.

Behaviour: topics, this broker and the default of all brokers (the empty name), this node's loggers,
client metrics subscriptions and groups; values with their sources and synonyms as Kafka resolves
them. Levels of loggers are this process's own and changed here; everything else is the
controller's to check and to record.
One DescribeConfigs is answered up to a bound, and what is beyond it with INVALID_REQUEST.
Absent: documentation (always null). Of the broker's own configs those that are not implemented can
be set and are shown, without effect.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pykraft import configs
from pykraft.configs import BrokerLayers, ResourceType
from pykraft.core.controller.controller import Controller
from pykraft.core.controller.outcome import Outcome
from pykraft.core.controller.topic_names import check_topic_name
from pykraft.handlers.broker_loggers import logger_levels, set_logger_levels
from pykraft.handlers.cluster_view import ClusterView
from pykraft.handlers.context import Broker, RequestContext
from pykraft.handlers.submission import refuse_each, submit
from pykraft.protocol.decoding import Message
from pykraft.protocol.encoding import encode_response
from pykraft.protocol.errors import ErrorCode, KafkaError

Entries = list[dict[str, Any]]
Names = frozenset[str] | None
ResourceKey = tuple[int, str]

DEFAULT_BROKER = ""
CLIENT_METRICS_ONLY_VERSION = 0
RESOURCE_TYPES = frozenset(map(int, ResourceType))
# Of one DescribeConfigs, and of its answer: ten thousand topics with all their configs.
RESOURCES_MAX = 10_000
ENTRIES_MAX = 350_000
# Encoding more than this is a worker's: an entry takes some microseconds.
ENTRIES_AT_ONCE_MAX = 2_000


def broker_layers(broker: Broker) -> BrokerLayers:
    dynamic = broker.image.configs
    return BrokerLayers(
        static=broker.settings.static,
        dynamic_default=dynamic.get((ResourceType.BROKER, DEFAULT_BROKER), {}),
        dynamic_broker=dynamic.get((ResourceType.BROKER, str(broker.node_id)), {}),
    )


# DescribeConfigs


def handle_describe_configs(
    broker: Broker, context: RequestContext, request: Message
) -> Mapping[str, Any] | None:
    describer = _Describer(broker, request.include_synonyms)
    unknown = next((r for r in request.resources if r.resource_type not in RESOURCE_TYPES), None)
    results = []
    for resource in request.resources:
        # Not null: that is how Kafka answers here when all is well.
        result = _named(resource) | {"error_message": ""}
        try:
            if unknown is not None:
                # One type that nobody knows spoils the whole request, as in Kafka.
                message = f"Unknown resource type {unknown.resource_type}"
                raise KafkaError(ErrorCode.INVALID_REQUEST, message)
            result["configs"] = describer.describe(resource)
        except KafkaError as error:
            context.failed(error.code)
            result |= {"error_code": error.code, "error_message": error.message or ""}
        results.append(result)
    if describer.told <= ENTRIES_AT_ONCE_MAX:
        return {"results": results}
    _encode_in_worker(broker, context, {"results": results})
    return None


def _encode_in_worker(broker: Broker, context: RequestContext, body: Mapping[str, Any]) -> None:
    def failed(error: BaseException) -> None:
        raise error

    broker.world.in_worker(
        lambda: encode_response(context.api_key, context.version, body),
        lambda encoded: context.reply_parts((encoded,)),
        failed,
    )


class _Describer:
    """Whatever is asked for twice is worked out once; topics without configs of their own are all
    the same. Only the answer grows with what is asked for, and it has a bound."""

    def __init__(self, broker: Broker, include_synonyms: bool) -> None:
        self.broker = broker
        self.include_synonyms = include_synonyms
        self.layers = broker_layers(broker)
        self.made: dict[tuple[object, ...], Entries] = {}
        self.resources = 0
        # Entries in the answer so far.
        self.told = 0

    def describe(self, resource: Message) -> Entries:
        self.resources += 1
        if self.resources > RESOURCES_MAX:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "too many resources in one request")
        # No names, like null, asks for all.
        names: Names = frozenset(resource.configuration_keys or ()) or None
        entries = self._describe(resource.resource_type, resource.resource_name, names)
        if self.told + len(entries) > ENTRIES_MAX:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "too many configs in one answer")
        self.told += len(entries)
        return entries

    def _describe(self, kind: int, name: str, names: Names) -> Entries:
        match kind:
            case ResourceType.TOPIC:
                check_topic_name(name)
                if name not in self.broker.image.topics:
                    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            case ResourceType.BROKER if name != DEFAULT_BROKER:
                _check_own_id(self.broker, name)
            case ResourceType.BROKER_LOGGER:
                _check_own_id(self.broker, name)
            case ResourceType.CLIENT_METRICS:
                _check_named(name, "Client metrics subscription")
            case ResourceType.GROUP:
                _check_named(name, "Group")
        overrides = self.broker.image.configs.get((kind, name), {})
        is_default = kind == ResourceType.BROKER and name == DEFAULT_BROKER
        key = (kind, is_default, names, frozenset(overrides.items()))
        entries = self.made.get(key)
        if entries is None:
            entries = self.made[key] = self._make(kind, is_default, names, overrides)
        return entries

    def _make(
        self, kind: int, is_default: bool, names: Names, overrides: Mapping[str, str]
    ) -> Entries:
        layers, synonyms = self.layers, self.include_synonyms
        match kind:
            case ResourceType.TOPIC:
                return configs.describe_topic(overrides, layers, names, synonyms)
            case ResourceType.BROKER if is_default:
                return configs.describe_default_broker(layers.dynamic_default, names, synonyms)
            case ResourceType.BROKER:
                return configs.describe_broker(layers, names, synonyms)
            case ResourceType.BROKER_LOGGER:
                return configs.describe_loggers(logger_levels(), names)
            case ResourceType.CLIENT_METRICS:
                return configs.describe_client_metrics(overrides, names, synonyms)
            case _:
                return configs.describe_group(overrides, layers, names, synonyms)


def _check_own_id(broker: Broker, name: str) -> None:
    if not name.removeprefix("-").isdecimal():
        message = f"Broker id must be an integer, but it is: {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if name != str(broker.node_id):
        message = f"Unexpected broker id, expected {broker.node_id}, but received {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def _check_named(name: str, kind: str) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{kind} name must not be empty")


# AlterConfigs and IncrementalAlterConfigs


def handle_alter_configs(
    broker: Broker, context: RequestContext, request: Message
) -> Mapping[str, Any] | None:
    submit(
        broker,
        context,
        lambda controller: controller.alter_configs(request, broker.node_id),
        refuse_each("responses", map(_named, request.resources)),
    )
    return None


def handle_incremental_alter_configs(
    broker: Broker, context: RequestContext, request: Message
) -> Mapping[str, Any] | None:
    keys = [(resource.resource_type, resource.resource_name) for resource in request.resources]
    times = Counter(keys)
    # A resource that appears twice is refused, which the controller does for all types.
    loggers = {
        key: _alter_loggers(broker, resource, validate_only=request.validate_only)
        for key, resource in zip(keys, request.resources, strict=True)
        if key[0] == ResourceType.BROKER_LOGGER and times[key] == 1
    }
    rest = [r for key, r in zip(keys, request.resources, strict=True) if key not in loggers]
    theirs = Message(resources=rest, validate_only=request.validate_only)

    def operation(controller: Controller) -> Outcome:
        outcome = controller.incremental_alter_configs(theirs, broker.node_id)
        return replace(outcome, reply=_merged(keys, loggers, outcome.reply))

    refused = refuse_each("responses", map(_named, rest))
    submit(broker, context, operation, lambda error: _merged(keys, loggers, refused(error)))
    return None


def _merged(
    keys: list[ResourceKey],
    loggers: Mapping[ResourceKey, Mapping[str, Any]],
    reply: Mapping[str, Any],
) -> Mapping[str, Any]:
    """Answers in the order of the request."""
    theirs = iter(reply["responses"])
    return {"responses": [loggers[key] if key in loggers else next(theirs) for key in keys]}


def _named(resource: Message) -> dict[str, Any]:
    return {"resource_type": resource.resource_type, "resource_name": resource.resource_name}


def _alter_loggers(broker: Broker, resource: Message, *, validate_only: bool) -> dict[str, Any]:
    answer = _named(resource) | {"error_code": ErrorCode.NONE, "error_message": None}
    operations = [(c.name, c.config_operation, c.value) for c in resource.configs]
    try:
        _check_own_id(broker, resource.resource_name)
        configs.validate_logger_operations(operations, logger_levels())
    except KafkaError as error:
        return answer | {"error_code": error.code, "error_message": error.message}
    if not validate_only:
        set_logger_levels(operations)
    return answer


# ListConfigResources


def handle_list_config_resources(
    broker: Broker, context: RequestContext, request: Message
) -> Mapping[str, Any]:
    known = _config_resources(broker, context)
    if context.version == CLIENT_METRICS_ONLY_VERSION:
        wanted = [int(ResourceType.CLIENT_METRICS)]
    else:
        wanted = list(dict.fromkeys(request.resource_types)) or list(known)
    if any(kind not in known for kind in wanted):
        context.failed(ErrorCode.UNSUPPORTED_VERSION)
        return {"error_code": ErrorCode.UNSUPPORTED_VERSION}
    return {
        "config_resources": [
            {"resource_name": name, "resource_type": kind}
            for kind in wanted
            for name in known[kind]
        ]
    }


def _config_resources(broker: Broker, context: RequestContext) -> dict[int, list[str]]:
    image = broker.image
    brokers = [str(b.id) for b, _ in ClusterView(image, context.listener).brokers()]
    configured = sorted(image.configs)
    return {
        ResourceType.GROUP: [n for kind, n in configured if kind == ResourceType.GROUP],
        ResourceType.CLIENT_METRICS: [
            n for kind, n in configured if kind == ResourceType.CLIENT_METRICS
        ],
        ResourceType.BROKER_LOGGER: brokers,
        ResourceType.BROKER: brokers,
        ResourceType.TOPIC: list(image.topics),
    }
