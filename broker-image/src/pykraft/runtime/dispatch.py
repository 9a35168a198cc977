"""Which handler serves which API: one row per key, made once when the node starts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pykraft.counters import Counters, RequestCounters
from pykraft.handlers import HANDLERS
from pykraft.handlers.api_versions import answer_unsupported_version
from pykraft.handlers.context import Broker, RequestContext
from pykraft.handlers.fetch import handle_fetch
from pykraft.handlers.produce import handle_produce
from pykraft.protocol.decoding import Message
from pykraft.protocol.errors import ProtocolError
from pykraft.protocol.versions import (
    API_VERSIONS,
    FLEXIBLE_FROM,
    NAMES,
    PRODUCE_VERSION_MIN,
    ApiKey,
)

# Handlers of the data path read the frame themselves.
RawHandler = Callable[[Broker, RequestContext, memoryview, int], None]
MessageHandler = Callable[[Broker, RequestContext, Message], Mapping[str, Any] | None]

RAW_HANDLERS: dict[int, RawHandler] = {
    ApiKey.PRODUCE: handle_produce,
    ApiKey.FETCH: handle_fetch,
}


@dataclass(slots=True)
class Route:
    version_min: int
    version_max: int
    flexible_from: int
    raw: RawHandler | None
    handler: MessageHandler | None
    unsupported: Callable[[Broker, RequestContext], None]
    counters: RequestCounters


Routes = dict[int, Route]


def close_unsupported(broker: Broker, context: RequestContext) -> None:
    """As Kafka: the answer's format would be a guess, so the connection is closed."""
    raise ProtocolError(f"{NAMES[context.api_key]} version {context.version} is not served")


def make_routes(counters: Counters) -> Routes:
    routes = {}
    for key, (low, high) in API_VERSIONS.items():
        routes[int(key)] = Route(
            version_min=PRODUCE_VERSION_MIN if key == ApiKey.PRODUCE else low,
            version_max=high,
            flexible_from=FLEXIBLE_FROM[key],
            raw=RAW_HANDLERS.get(key),
            handler=HANDLERS.get(key),
            unsupported=(
                answer_unsupported_version if key == ApiKey.API_VERSIONS else close_unsupported
            ),
            counters=counters.request(key),
        )
    return routes
