"""What a handler is given: the broker it serves and the request it answers.

Handlers decide; they own no socket, no thread and no clock. What they need of the world comes in
through the small protocols below, which the runtime implements and tests can play.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from pykraft.core.controller.controller import Controller, Outcome
from pykraft.core.controller.image import MetadataImage
from pykraft.core.log.partition_log import FileSlice
from pykraft.core.replication.fetch_sessions import FetchSessions
from pykraft.core.replication.replicas import Replicas
from pykraft.counters import Counters, RequestCounters
from pykraft.ids import Uuid
from pykraft.protocol.encoding import encode_response
from pykraft.settings import Settings

T = TypeVar("T")

# A reply is bytes and stretches of log files, sent one after the other.
Part = bytes | FileSlice


class Timer(Protocol):
    def cancel(self) -> None: ...


class World(Protocol):
    """Time, waiting and slow work."""

    def now_ms(self) -> int: ...

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer: ...

    def in_worker(
        self,
        work: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """Run `work` in a worker thread, then `done` or `failed` on the loop."""


class ControllerGateway(Protocol):
    """The way to the active controller, wherever it runs."""

    def submit(
        self, operation: Callable[[Controller], Outcome], done: Callable[[Mapping[str, Any]], None]
    ) -> None:
        """`done` gets the reply once the records are committed; or at once if there are none."""

    def describe_quorum(self) -> Mapping[str, Any]: ...


class LogDirectories(Protocol):
    """The log directories as DescribeLogDirs shows them."""

    def describe(self) -> list["LogDirectory"]: ...


@dataclass(frozen=True, slots=True)
class LogDirectory:
    path: str
    id: Uuid
    online: bool
    total_bytes: int
    usable_bytes: int
    # Names of the logs ("topic-0") that live here; their sizes are in Replicas.
    logs: frozenset[str]


@dataclass(slots=True)
class Broker:
    """One broker as its handlers see it."""

    node_id: int
    cluster_id: str
    settings: Settings
    # Committed metadata only; replay of the metadata log is its sole writer.
    image: MetadataImage
    replicas: Replicas
    sessions: FetchSessions
    controller: ControllerGateway
    log_dirs: LogDirectories
    world: World
    counters: Counters
    producer_ids: "ProducerIds"
    # Encoded answers to Metadata, by version and options; emptied when metadata change.
    metadata_cache: dict[tuple[object, ...], bytes]
    # Names that the controller has been asked to create, until it answers.
    topics_being_created: set[str] = field(default_factory=set)


class ProducerIds(Protocol):
    """Hands out producer ids from blocks that the controller allots."""

    def next(self, done: Callable[[int], None], failed: Callable[[int], None]) -> None:
        """`done` gets an id; `failed` gets an error code."""


class RequestContext:
    """One request on its way.

    It ends exactly once: by `reply`, `reply_parts`, `drop` or `disconnect`.
    """

    __slots__ = (
        "api_key",
        "client_bytes",
        "correlation_id",
        "counters",
        "disconnect",
        "listener",
        "on_close",
        "peer",
        "sender",
        "started_ns",
        "version",
    )

    def __init__(
        self,
        api_key: int,
        version: int,
        correlation_id: int,
        client_bytes: bytes,
        listener: str,
        peer: str,
        counters: RequestCounters,
        started_ns: int,
        sender: Callable[["RequestContext", Sequence[Part] | None], None],
        disconnect: Callable[[], None],
    ) -> None:
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_bytes = client_bytes
        # The listener's name: Metadata answers with the addresses that belong to it.
        self.listener = listener
        self.peer = peer
        self.counters = counters
        self.started_ns = started_ns
        self.sender = sender
        # Close the connection: the only way to tell a client that asked for no answer.
        self.disconnect = disconnect
        # Called when the client goes away while its request waits.
        self.on_close: Callable[[], None] | None = None

    @property
    def client_id(self) -> str:
        return self.client_bytes.decode("utf-8", "replace")

    def reply(self, body: Mapping[str, Any]) -> None:
        self.sender(self, (encode_response(self.api_key, self.version, body),))

    def reply_parts(self, parts: Sequence[Part]) -> None:
        self.sender(self, parts)

    def drop(self) -> None:
        """No answer is due (acks=0); the connection goes on with its next request."""
        self.sender(self, None)

    def failed(self, code: int) -> None:
        """Count an error code in the answer; the metrics show it per API."""
        self.counters.error(code)
