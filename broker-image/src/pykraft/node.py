"""One node, put together: the only module that knows every layer.

Start: lock and identify the directories, replay the metadata log, open the partition logs, become
controller, bind the listeners, register, be unfenced, accept clients. Stop: the same backwards.
"""

import asyncio
import json
import logging
import os
import random
import resource
import signal
import sys
from typing import Any

import uvloop

from pykraft.core.controller.image import MetadataImage
from pykraft.core.log.files import OpenFiles
from pykraft.core.replication.fetch_sessions import FetchSessions
from pykraft.core.replication.replicas import Replicas
from pykraft.core.storage import StorageError
from pykraft.counters import Counters
from pykraft.handlers.context import Broker
from pykraft.ids import Uuid
from pykraft.ops.http import HttpEndpoint
from pykraft.protocol.decoding import make_request
from pykraft.protocol.versions import ApiKey
from pykraft.runtime.broker_lifecycle import (
    BrokerLifecycle,
    endpoint,
    ignore,
    supported_features,
)
from pykraft.runtime.broker_metadata import BrokerMetadata
from pykraft.runtime.controller_setup import make_controller, read_bootstrap
from pykraft.runtime.directory_assignments import tell_directories
from pykraft.runtime.disk import RealDisk
from pykraft.runtime.dispatch import make_routes
from pykraft.runtime.housekeeping import Housekeeping
from pykraft.runtime.identity import IdentityError, load_identity, new_uuid
from pykraft.runtime.log_manager import (
    CLEAN_SHUTDOWN,
    DirectoryInUse,
    LogDir,
    LogManager,
    lock_directory,
)
from pykraft.runtime.node_view import RealNodeView
from pykraft.runtime.producer_ids import BlockProducerIds
from pykraft.runtime.raft_driver import QuorumError
from pykraft.runtime.server import Server
from pykraft.runtime.world import RealWorld
from pykraft.settings import Settings, advertise

log = logging.getLogger("pykraft.node")

# One for flushing, one for recompression, one spare: more would only queue for the disk.
WORKERS = 3
# As Kafka: a session may be taken over after two minutes without a request.
FETCH_SESSION_EVICTION_MS = 120_000
# How long a stop may take before what is still open is cut off.
STOP_SECONDS_MAX = 20.0
# How long clients have to read that the disk failed.
FATAL_GRACE_S = 0.5

EXIT_OK = 0
EXIT_FAILED = 1

# What a person can set right: told in one line, without a trace.
START_ERRORS = (IdentityError, DirectoryInUse, QuorumError, StorageError, OSError)


def run(settings: Settings) -> int:
    """Run until SIGTERM or Ctrl-C; the exit code."""
    for line in settings.warnings:
        log.warning("%s", line)
    raise_file_limit()
    uvloop.install()
    loop = asyncio.new_event_loop()
    try:
        node = Node(loop, settings)
        node.start()
    except START_ERRORS as error:
        print(f"pykraft node: {error}", file=sys.stderr)
        return EXIT_FAILED
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, node.stop)
    loop.run_forever()
    loop.close()
    # At once: Python would wait for worker threads, and one of them may hang in the disk.
    logging.shutdown()
    sys.stdout.flush()
    os._exit(node.exit_code)


def raise_file_limit() -> None:
    """Every connection and every active segment is an open file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Node:
    """A combined node: broker and controller in one process."""

    def __init__(self, loop: asyncio.AbstractEventLoop, settings: Settings) -> None:
        self.loop = loop
        self.settings = settings
        self.exit_code = EXIT_OK
        self.stopping = False
        self.world = RealWorld(loop, "worker", WORKERS)
        self.raft_world = RealWorld(loop, "raft", 1)
        self.trash = RealWorld(loop, "trash", 1)
        paths = tuple(dict.fromkeys((*settings.log_dirs, settings.metadata_log_dir)))
        # Locked before anything is read: what another process may change is worth nothing.
        self.locks = {path: lock_directory(path) for path in paths}
        self.identity = load_identity(paths, settings.node_id)
        self.logs = LogManager(
            [open_log_dir(path, self.identity.directory_ids[path]) for path in settings.log_dirs],
            self.world,
            self.trash,
            self._on_dir_offline,
            lambda limit_ms: random.randrange(limit_ms) if limit_ms > 0 else 0,
            settings.producer_id_expiration_ms,
        )
        self.controller = make_controller(settings, self.identity, self.raft_world, self._fatal)
        self.incarnation = new_uuid()
        self.producer_ids = BlockProducerIds(settings.node_id, self.controller)
        self.broker = self._make_broker()
        self.metadata = BrokerMetadata(self.broker, self.logs)
        self.server = Server(loop, self.broker, make_routes(self.broker.counters))
        self.housekeeping = Housekeeping(loop, self.broker, self.logs, self.metadata)
        self.lifecycle = BrokerLifecycle(
            loop, self.broker, self.incarnation, self._log_dir_ids, self._on_unfenced, self._fatal
        )
        self.http: HttpEndpoint | None = None
        self.deadline: asyncio.TimerHandle | None = None
        loop.set_exception_handler(self._on_bug)

    def _make_broker(self) -> Broker:
        settings = self.settings
        return Broker(
            node_id=settings.node_id,
            cluster_id=self.identity.cluster_id,
            settings=settings,
            image=MetadataImage(),
            replicas=Replicas(),
            sessions=FetchSessions(
                settings.max_incremental_fetch_session_cache_slots,
                FETCH_SESSION_EVICTION_MS,
                lambda: random.getrandbits(31),
            ),
            controller=self.controller,
            log_dirs=self.logs,
            world=self.world,
            counters=Counters(self.world.now_ms()),
            producer_ids=self.producer_ids,
            metadata_cache={},
        )

    # Starting

    def start(self) -> None:
        """Everything up to the registration; the controller's answer opens the doors."""
        previous_epoch = self._previous_epoch()
        self.controller.open()
        self.broker.image = self.controller.committed_image()
        self.logs.read_checkpoints()
        count = self.metadata.load()
        log.info("%d logs are open", count)
        self._start_http()
        self.controller.listeners.append(self.metadata.on_commit)
        self.controller.start(read_bootstrap(self.settings))
        addresses = self.settings.addresses
        ports = {
            each.name: self.server.listen(each.name, each.host, each.port)
            for each in addresses.broker_listeners
        }
        self._register_controller()
        self.advertised = advertise(addresses.advertised_listeners, ports)
        self.lifecycle.register(self.advertised, previous_epoch)

    def _previous_epoch(self) -> int:
        """The broker epoch of the last run, if all its directories were closed cleanly."""
        epochs = set()
        for directory in self.logs.dirs:
            try:
                said = json.loads(directory.disk.read(CLEAN_SHUTDOWN))
                epochs.add(int(said["brokerEpoch"]))
            except (FileNotFoundError, ValueError, KeyError, TypeError):
                return -1
        return epochs.pop() if len(epochs) == 1 else -1

    def _register_controller(self) -> None:
        listeners = self.settings.addresses.advertised_controller_listeners
        request = make_request(
            ApiKey.CONTROLLER_REGISTRATION,
            {
                "controller_id": self.settings.node_id,
                "incarnation_id": self.incarnation,
                "zk_migration_ready": False,
                "listeners": [endpoint(each) for each in listeners],
                "features": supported_features(),
            },
        )
        self.controller.submit(lambda controller: controller.register_controller(request), ignore)

    def _start_http(self) -> None:
        settings = self.settings
        if settings.pykraft_http_port < 0:
            return
        view = RealNodeView(
            self.broker,
            self.logs,
            metadata_end=lambda: self.controller.raft.high_watermark - 1,
            is_active_controller=lambda: self.controller.raft.is_leader,
            is_shutting_down=lambda: self.stopping,
        )
        endpoint = HttpEndpoint(
            settings.pykraft_http_host,
            settings.pykraft_http_port,
            view,
            self.broker.counters,
            self.loop,
        )
        try:
            port = endpoint.start()
        except OSError as error:
            if "pykraft.http.port" in settings.static:
                raise
            # Nobody asked for it: a second node on this machine has the default port.
            log.warning("no HTTP port: %s; set pykraft.http.port", error)
            return
        self.http = endpoint
        log.info("http port %s:%d", settings.pykraft_http_host, port)

    def _on_unfenced(self) -> None:
        self.producer_ids.broker_epoch = self.lifecycle.epoch
        self.metadata.when_settled(self._open_doors)

    def _open_doors(self) -> None:
        """Every partition that we are to lead is led."""
        if self.stopping or self.exit_code != EXIT_OK:
            return
        tell_directories(self.broker, self.logs, self.broker.replicas)
        self.housekeeping.start()
        self.server.start()
        first = self.advertised[0]
        print(f"ready: {first.host}:{first.port}", flush=True)
        log.info("ready", extra={"listeners": ",".join(map(str, self.advertised))})

    def _log_dir_ids(self) -> tuple[list[Uuid], list[Uuid]]:
        online = [directory.id for directory in self.logs.dirs if directory.online]
        offline = [directory.id for directory in self.logs.dirs if not directory.online]
        return online, offline

    # Failing

    def _on_dir_offline(self, directory: LogDir, error: StorageError) -> None:
        self.broker.counters.node.storage_errors += 1
        self.metadata.take_offline(set(directory.logs))
        if directory.path == self.settings.metadata_log_dir:
            self._fatal(error)
        elif not any(each.online for each in self.logs.dirs):
            self._fatal(StorageError("no log directory is left"))
        elif self.lifecycle.epoch >= 0:
            self.lifecycle.heartbeat()

    def _on_bug(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A callback raised what nobody expected: state may be wrong, so start anew."""
        error = context.get("exception")
        log.critical("%s", context.get("message"), exc_info=error)
        self._fatal(RuntimeError(f"a fault of our own: {error!r}"))

    def _fatal(self, error: Exception) -> None:
        """Stop without a clean shutdown: the next start recovers what the disk has."""
        if self.exit_code == EXIT_FAILED:
            return
        self.exit_code = EXIT_FAILED
        log.critical("the node stops: %s", error)
        # The answers that say so are on their way; let the loop send them.
        self.loop.call_later(FATAL_GRACE_S, self._end)

    # Stopping

    def stop(self) -> None:
        if self.stopping:
            return
        self.stopping = True
        log.info("stopping")
        self.deadline = self.loop.call_later(STOP_SECONDS_MAX, self._give_up)
        if self.lifecycle.fenced or not self.settings.controlled_shutdown_enable:
            self._may_stop()
        else:
            self.lifecycle.shut_down(self._may_stop)

    def _may_stop(self) -> None:
        self.lifecycle.stop()
        self.housekeeping.stop()
        self.server.stop_accepting()
        self.server.close_connections()
        self.controller.stop(lambda: self.metadata.when_settled(self._drain))

    def _drain(self) -> None:
        """What flushes and checkpoints are under way must end, and tell how, before we close."""
        self.world.when_idle(self._close_logs)

    def _close_logs(self) -> None:
        marks = self.metadata.high_watermarks()
        # Nobody touches the logs any more; a worker closes them, so that the deadline counts.
        self.world.in_worker(
            lambda: self.logs.close(self.lifecycle.epoch, marks),
            lambda _: self._end(),
            self._not_closed,
        )

    def _not_closed(self, error: BaseException) -> None:
        log.critical("the logs are not closed cleanly: %s", error)
        self.exit_code = EXIT_FAILED
        self._end()

    def _give_up(self) -> None:
        """A disk hangs, or something else of the world: the next start recovers."""
        log.critical("not stopped after %s s; what hangs is left behind", STOP_SECONDS_MAX)
        self.exit_code = EXIT_FAILED
        self._end()

    def _end(self) -> None:
        if self.deadline is not None:
            self.deadline.cancel()
        self.server.stop_accepting()
        self.server.close_connections()
        if self.http is not None:
            self.http.stop()
        for world in (self.world, self.raft_world, self.trash):
            world.stop()
        log.info("stopped")
        self.loop.stop()


def open_log_dir(path: str, directory_id: Uuid) -> LogDir:
    disk = RealDisk(path)
    return LogDir(path, directory_id, disk, OpenFiles(disk))
