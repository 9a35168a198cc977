"""Listeners: accept, bound and close connections."""

import asyncio
import errno
import logging
import resource
import socket
import time

from pykraft.core.log.files import OPEN_FILES_MAX
from pykraft.handlers.context import Broker
from pykraft.runtime.connection import SCRATCH_BYTES, Connection
from pykraft.runtime.dispatch import Routes

log = logging.getLogger("pykraft.server")

# Connections accepted in one go before the others get their turn.
ACCEPTS_PER_TURN = 64
# Kafka's default of 50 suits a thread that does nothing but accept. Our loop comes round every few
# milliseconds, and a client that finds no room waits for a second before it tries again.
BACKLOG_MIN = 1024
# How often idle connections are looked for, and unused buffers given back.
SWEEP_S = 5.0
# How long accepting rests when the process is out of file descriptors.
ACCEPT_REST_S = 1.0
# Open files of older segments, the metadata log, checkpoints, HTTP. Each hosted partition has its
# active segment open besides.
FILES_RESERVED = OPEN_FILES_MAX + 128
OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Server:
    """All listeners of one broker. Invariant: `per_ip` counts exactly the open connections."""

    def __init__(self, loop: asyncio.AbstractEventLoop, broker: Broker, routes: Routes) -> None:
        self.loop = loop
        self.broker = broker
        self.routes = routes
        self.listening: dict[str, socket.socket] = {}
        self.connections: set[Connection] = set()
        self.per_ip: dict[str, int] = {}
        # All connections read into this one; what must outlive a call is copied out of it.
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.sweeper: asyncio.TimerHandle | None = None
        # A client must not be able to take the file that an append or a roll needs.
        self.files_max = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - FILES_RESERVED

    def listen(self, name: str, host: str, port: int) -> int:
        """Bind and listen; the port that was bound. Raises OSError."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(max(self.broker.settings.socket_listen_backlog_size, BACKLOG_MIN))
        sock.setblocking(False)
        self.listening[name] = sock
        return int(sock.getsockname()[1])

    def start(self) -> None:
        """Begin to accept: the broker is ready."""
        for name, sock in self.listening.items():
            self.loop.add_reader(sock.fileno(), self._accept, name, sock)
        self.sweeper = self.loop.call_later(SWEEP_S, self._sweep)

    def _accept(self, name: str, listening: socket.socket) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                sock, address = listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                self._accept_failed(error, name, listening)
                return
            self._admit(name, sock, str(address[0]), int(address[1]))

    def _accept_failed(self, error: OSError, name: str, listening: socket.socket) -> None:
        if error.errno not in OUT_OF_FILES:
            return  # The client hung up before we came to it.
        log.error("cannot accept: %s; trying again in %s s", error, ACCEPT_REST_S)
        self.loop.remove_reader(listening.fileno())
        self.loop.call_later(ACCEPT_REST_S, self._accept_again, name, listening)

    def _accept_again(self, name: str, listening: socket.socket) -> None:
        if self.listening.get(name) is listening:
            self.loop.add_reader(listening.fileno(), self._accept, name, listening)

    def _admit(self, name: str, sock: socket.socket, ip: str, port: int) -> None:
        node = self.broker.counters.node
        reason = self._refusal(ip)
        if reason is not None:
            node.connections_refused += 1
            log.warning("connection refused: %s", reason, extra={"peer": f"{ip}:{port}"})
            sock.close()
            return
        sock.setblocking(False)
        self._tune(sock)
        node.connections_accepted += 1
        self.per_ip[ip] = self.per_ip.get(ip, 0) + 1
        self.connections.add(
            Connection(
                self.loop,
                sock,
                f"{ip}:{port}",
                name,
                self.broker,
                self.routes,
                self.scratch,
                self._closed,
            )
        )

    def _refusal(self, ip: str) -> str | None:
        settings = self.broker.settings
        if len(self.connections) >= settings.max_connections:
            return f"{len(self.connections)} are open; max.connections={settings.max_connections}"
        if len(self.connections) >= self.files_max - len(self.broker.replicas):
            return f"{len(self.connections)} are open, and logs need the rest of the file limit"
        limit = settings.max_connections_per_ip_overrides.get(ip, settings.max_connections_per_ip)
        if self.per_ip.get(ip, 0) >= limit:
            return f"{ip} has {self.per_ip[ip]} open; max.connections.per.ip={limit}"
        return None

    def _tune(self, sock: socket.socket) -> None:
        settings = self.broker.settings
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # -1 leaves a size to the kernel's tuning.
        if settings.socket_send_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.socket_send_buffer_bytes)
        # Kafka's default of 100 KiB cuts a frame of 256 KiB into three reads, a third of the CPU
        # that such a frame costs; only a size that somebody chose is set.
        size = settings.socket_receive_buffer_bytes
        if size > 0 and "socket.receive.buffer.bytes" in settings.static:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)

    def _closed(self, connection: Connection) -> None:
        self.connections.discard(connection)
        ip = connection.peer.rpartition(":")[0]
        left = self.per_ip.get(ip, 0) - 1
        if left > 0:
            self.per_ip[ip] = left
        else:
            self.per_ip.pop(ip, None)
        self.broker.counters.node.connections_closed += 1

    def _sweep(self) -> None:
        """Close what was silent for connections.max.idle.ms; take back buffers of what rests."""
        now = time.monotonic()
        idle_s = self.broker.settings.connections_max_idle_ms / 1000
        for connection in list(self.connections):
            silent = now - connection.last_active
            if 0 <= idle_s < silent:
                self.broker.counters.node.connections_idle_closed += 1
                log.info("closing an idle connection", extra={"peer": connection.peer})
                connection.close()
            elif silent > SWEEP_S:
                connection.trim()
        self.sweeper = self.loop.call_later(SWEEP_S, self._sweep)

    def stop_accepting(self) -> None:
        for sock in self.listening.values():
            self.loop.remove_reader(sock.fileno())
            sock.close()
        self.listening.clear()
        if self.sweeper is not None:
            self.sweeper.cancel()

    def close_connections(self) -> None:
        for connection in list(self.connections):
            connection.close()
