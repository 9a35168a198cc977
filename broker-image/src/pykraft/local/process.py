"""A node as a child process: its start, the word that it is ready, and its end."""

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

# A node that was killed may have to scan its logs first.
START_SECONDS_MAX = 300
# A node that is asked to stop has to sync its logs first.
STOP_SECONDS_MAX = 60
# One request can arrive twice: timeout(1), for one, signals its child and then the whole group.
# So only a request after this long is a second one.
SAME_REQUEST_SECONDS = 1.0
READY = "ready: "
_PR_SET_PDEATHSIG = 1


class NodeError(Exception):
    """The node ended, or did not become ready; one line says which."""


def pykraft_command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pykraft", *arguments]


class NodeProcess:
    """Invariant: the child's stdout is read until it ends, so the child never blocks on it."""

    def __init__(self, command: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # In a session of its own, so that a Ctrl-C at the terminal reaches it through us only,
        # once. Should we be killed, the kernel stops it.
        self._child = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_die_with_parent(),  # noqa: PLW1509 - this process has one thread.
        )
        assert self._child.stdout is not None
        self._output = self._child.stdout.fileno()
        self._pending = b""
        self._stop_asked_at: float | None = None

    def wait_until_ready(self, within_seconds: float = START_SECONDS_MAX) -> str:
        """The HOST:PORT that clients can connect to. NodeError if the child ends or stays mute."""
        deadline = self._clock() + within_seconds
        for line in self._lines():
            if line.startswith(READY):
                return line.removeprefix(READY)
            if self._clock() > deadline:
                raise NodeError(f"the node was not ready after {within_seconds:.0f} s")
        raise NodeError(f"the node ended with code {self.wait()} before it was ready")

    def wait(self) -> int:
        """The child's exit code once it has ended; 128 + N if signal N killed it."""
        for _ in self._lines():
            pass
        code = self._child.wait()
        return code if code >= 0 else 128 - code

    def stop(self) -> None:
        """Ask the child to stop; asked again later, kill it. Safe in a signal handler."""
        if self._child.returncode is not None:
            return
        if self._stop_asked_at is None:
            self._stop_asked_at = self._clock()
            self._child.send_signal(signal.SIGTERM)
        elif self._clock() > self._stop_asked_at + SAME_REQUEST_SECONDS:
            self._child.kill()

    @property
    def is_stopping(self) -> bool:
        return self._stop_asked_at is not None

    def _lines(self) -> Iterator[str]:
        """Lines of the child's stdout until it ends; an empty one each second without any."""
        while True:
            readable, _, _ = select.select([self._output], [], [], 1.0)
            self._kill_if_it_does_not_stop()
            if not readable:
                yield ""
                continue
            chunk = os.read(self._output, 65536)
            if not chunk:
                return
            *lines, self._pending = (self._pending + chunk).split(b"\n")
            yield from (line.decode(errors="replace") for line in lines)

    def _kill_if_it_does_not_stop(self) -> None:
        asked_at = self._stop_asked_at
        if asked_at is not None and self._clock() > asked_at + STOP_SECONDS_MAX:
            self._child.kill()


@contextmanager
def forwarding_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on Ctrl-C, SIGTERM and the terminal's end instead of dying of them."""

    def handler(_: int, __: FrameType | None) -> None:
        stop()

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [(each, signal.signal(each, handler)) for each in signals]
    try:
        yield
    finally:
        for each, previous in before:
            signal.signal(each, previous)


def _die_with_parent() -> Callable[[], None]:
    # The library is loaded here, since after the fork nothing should be.
    prctl = ctypes.CDLL(None).prctl

    def ask_kernel() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

    return ask_kernel
