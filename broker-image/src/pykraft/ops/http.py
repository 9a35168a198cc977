"""The HTTP port, as long as nobody has asked: a listening socket on the node's loop, no more.

The first connection starts a thread with an event loop of its own, which loads aiohttp and serves
from then on (`site.py`; ADR 0003 says why a thread). So a node that nobody looks at pays neither
memory nor start-up time, and making a page does not stop the data path.
"""

import asyncio
import logging
import socket
import sys
import threading
from typing import TYPE_CHECKING

from pykraft.counters import Counters
from pykraft.ops.view import NodeView

if TYPE_CHECKING:
    from pykraft.ops.site import Site

BACKLOG = 32
STOP_SECONDS_MAX = 1.0
# Loading aiohttp takes a third of a second of Python. A thread that computes hands the interpreter
# over once per switch interval; with the usual 5 ms every answer of the node would wait that long.
SWITCH_SECONDS_WHILE_LOADING = 0.0002

log = logging.getLogger(__name__)


class HttpEndpoint:
    """`start` and `stop` are called on the node's loop."""

    def __init__(
        self,
        host: str,
        port: int,
        view: NodeView,
        counters: Counters,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._address = (host, port)
        self._view = view
        self._counters = counters
        self._loop = loop
        self._listener: socket.socket | None = None
        self._thread: threading.Thread | None = None
        # Written by the thread once it serves.
        self._site: Site | None = None
        self._stopping = threading.Event()

    def start(self) -> int:
        """Listen, and return the port. Raises OSError when it is taken."""
        host, port = self._address
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
        listener.setblocking(False)
        self._listener = listener
        self._loop.add_reader(listener.fileno(), self._on_first_connection)
        bound: int = listener.getsockname()[1]
        return bound

    def _on_first_connection(self) -> None:
        assert self._listener is not None
        self._loop.remove_reader(self._listener.fileno())
        self._thread = threading.Thread(
            target=self._serve, args=(self._listener,), name="pykraft-http", daemon=True
        )
        self._thread.start()

    def _serve(self, listener: socket.socket) -> None:
        """The thread's whole life."""
        try:
            self._site = self._load()
            if not self._stopping.is_set():
                self._site.serve(listener)
        except Exception:
            # Clients are served without this page, and the probes will see that it is gone.
            log.exception("the HTTP port failed")

    def _load(self) -> "Site":
        usual = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS_WHILE_LOADING)
        try:
            from pykraft.ops.site import Site
        finally:
            sys.setswitchinterval(usual)
        return Site(self._view, self._counters, self._loop)

    def stop(self) -> None:
        if self._listener is None:
            return
        self._stopping.set()
        if self._thread is None:
            self._loop.remove_reader(self._listener.fileno())
        else:
            if self._site is not None:
                self._site.stop()
            # A thread that is still loading sees the flag; it is a daemon and holds up nobody.
            self._thread.join(STOP_SECONDS_MAX)
        self._listener.close()
        self._listener = None
