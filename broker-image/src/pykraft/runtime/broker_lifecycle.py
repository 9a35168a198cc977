"""A broker's life in the eyes of its controller: registered, unfenced, alive, shutting down."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from pykraft.core.controller.brokers import our_features
from pykraft.core.controller.controller import Controller, Outcome
from pykraft.handlers.context import Broker
from pykraft.ids import Uuid
from pykraft.protocol.decoding import make_request
from pykraft.protocol.errors import ErrorCode, KafkaError
from pykraft.protocol.versions import ApiKey
from pykraft.settings import Listener

log = logging.getLogger("pykraft.broker")

PLAINTEXT = 0
NO_EPOCH = -1


class NotAccepted(Exception):
    """The controller refused the registration, and asking again would not help."""


class BrokerLifecycle:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        broker: Broker,
        incarnation: Uuid,
        log_dirs: Callable[[], tuple[list[Uuid], list[Uuid]]],
        on_unfenced: Callable[[], None],
        on_refused: Callable[[Exception], None],
    ) -> None:
        self.loop = loop
        self.broker = broker
        self.incarnation = incarnation
        # The directories that are online, and those that went offline.
        self.log_dirs = log_dirs
        self.on_unfenced = on_unfenced
        self.on_refused = on_refused
        self.epoch = NO_EPOCH
        self.fenced = True
        self.shutting_down = False
        self.on_may_stop: Callable[[], None] | None = None
        self.timer: asyncio.TimerHandle | None = None

    def register(self, listeners: tuple[Listener, ...], previous_epoch: int) -> None:
        """`previous_epoch` is that of the last run if it ended cleanly, else -1."""
        request = make_request(
            ApiKey.BROKER_REGISTRATION,
            {
                "broker_id": self.broker.node_id,
                "cluster_id": self.broker.cluster_id,
                "incarnation_id": self.incarnation,
                "listeners": [endpoint(each) for each in listeners],
                "features": supported_features(),
                "rack": self.broker.settings.broker_rack,
                "log_dirs": self.log_dirs()[0],
                "previous_broker_epoch": previous_epoch,
            },
        )
        # A former process of this node may still be registered as alive. We hold the lock of its
        # log directory, so it is dead: no need to wait for its session to end.
        self._submit(lambda controller: controller.fence_dead_broker(self.broker.node_id), ignore)
        self._submit(
            lambda controller: controller.register_broker(request, self.broker.world.now_ms()),
            self._registered,
        )

    def _submit(
        self,
        operation: Callable[[Controller], Outcome],
        done: Callable[[Mapping[str, Any]], None],
    ) -> None:
        try:
            self.broker.controller.submit(operation, done)
        except KafkaError as error:
            # The controller is busy or gone; the next heartbeat tries again.
            log.warning("the controller takes nothing on: %s", error)

    def _registered(self, reply: Mapping[str, Any]) -> None:
        code = ErrorCode(reply["error_code"])
        if code != ErrorCode.NONE:
            self.on_refused(NotAccepted(f"the controller refused this broker: {code.name}"))
            return
        self.epoch = int(reply["broker_epoch"])
        self.heartbeat()

    def heartbeat(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        interval_s = self.broker.settings.broker_heartbeat_interval_ms / 1000
        self.timer = self.loop.call_later(interval_s, self.heartbeat)
        request = make_request(
            ApiKey.BROKER_HEARTBEAT,
            {
                "broker_id": self.broker.node_id,
                "broker_epoch": self.epoch,
                "current_metadata_offset": self.broker.image.offset,
                "want_fence": False,
                "want_shut_down": self.shutting_down,
                "offline_log_dirs": self.log_dirs()[1],
                "cordoned_log_dirs": [],
            },
        )
        self._submit(
            lambda controller: controller.heartbeat(request, self.broker.world.now_ms()),
            self._answered,
        )

    def _answered(self, reply: Mapping[str, Any]) -> None:
        if reply["error_code"] != ErrorCode.NONE:
            log.warning("heartbeat refused: %s", ErrorCode(reply["error_code"]).name)
            return
        if reply["should_shut_down"] and self.on_may_stop is not None:
            self.stop()
            self.on_may_stop()
            return
        if self.shutting_down:
            # The controller has moved what could be moved; ask at once for leave to go.
            self.heartbeat()
            return
        if self.fenced and not reply["is_fenced"]:
            self.fenced = False
            self._submit(lambda controller: controller.recover_leaders(self.broker.node_id), ignore)
            self.on_unfenced()

    def shut_down(self, may_stop: Callable[[], None]) -> None:
        """Ask the controller to move leaders away, and call back when it lets us go."""
        self.shutting_down = True
        self.on_may_stop = may_stop
        self.heartbeat()

    def stop(self) -> None:
        if self.timer is not None:
            self.timer.cancel()


def endpoint(listener: Listener) -> dict[str, object]:
    return {
        "name": listener.name,
        "host": listener.host,
        "port": listener.port,
        "security_protocol": PLAINTEXT,
    }


def supported_features() -> list[dict[str, object]]:
    return [
        {"name": name, "min_supported_version": low, "max_supported_version": high}
        for name, (low, high) in our_features().items()
    ]


def ignore(_: Mapping[str, Any]) -> None:
    return None
