"""Real brokers as child processes, pykraft's or Apache's, each in its own folder on free ports.

Both kinds take the same server.properties, so that a test says which broker it wants and nothing
else, and so that one broker can be started on the folder that the other has written.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, ClassVar, Self

from apache import REPOSITORY, java, run_tool
from waiting import eventually

# Which broker the client tests talk to, so that both are held to the same answers.
TARGET = os.environ.get("TARGET", "pykraft")
START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 30
CLUSTER_ID = "pykraftTestsAAAAAAAAAA"
# kafka-server-start's own options, but with less heap: a test needs little.
TEST_JVM = ("-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")

# Nodes that run now: the conftest shows their logs when a test fails, and ends what is left over.
RUNNING: list["Node"] = []


class NodeError(AssertionError):
    """A broker ended by itself, or would not start or stop; the message holds its log's end."""


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on; all are held until the last is known, so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class Node(ABC):
    """One combined broker and controller. Invariant: in RUNNING exactly while its process lives."""

    kind: ClassVar[str]

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.config = folder / "server.properties"
        self.log = folder / f"{self.kind}.log"
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        if not self.config.exists():
            self._write_config(settings or {})
        self.port = self._port_of_config()
        self.bootstrap = f"127.0.0.1:{self.port}"

    @abstractmethod
    def format(self) -> Self:
        """Prepare the empty log directory, as kafka-storage does."""

    @abstractmethod
    def _command(self) -> list[str]: ...

    @abstractmethod
    def _is_ready(self) -> bool: ...

    def start(self) -> Self:
        """Start on whatever the folder holds and wait until clients can connect."""
        self.launch()
        eventually(self._ready_or_dead, within_s=START_SECONDS_MAX, because=f"{self.kind} is ready")
        return self

    def launch(self) -> None:
        assert self.process is None, "already started"
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        # The kernel ends the child should the tests be killed, so that none is left behind.
        command = ["setpriv", "--pdeathsig", "KILL", *self._command()]
        with self.log.open("ab") as log:
            self.process = _spawn(command, log)
        RUNNING.append(self)

    def stop(self) -> None:
        """Ask it to stop and wait until it has; an error if it ends with one."""
        process = self._running()
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise NodeError(f"{self.kind} did not stop\n{self.log_end()}") from None
        self._forget()
        # A JVM that was asked to stop by SIGTERM reports 143.
        if code not in (0, 143):
            raise NodeError(f"{self.kind} stopped with {code}\n{self.log_end()}")

    def kill(self) -> None:
        """SIGKILL, as the kernel would on memory exhaustion."""
        process = self._running()
        process.kill()
        process.wait()
        self._forget()

    def pid(self) -> int:
        return self._running().pid

    def log_end(self, characters: int = 6000) -> str:
        return self.log.read_text(errors="replace")[-characters:] if self.log.exists() else ""

    def log_since_start(self) -> str:
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.kill()

    def _running(self) -> subprocess.Popen[bytes]:
        assert self.process is not None, "not started"
        return self.process

    def _forget(self) -> None:
        self.process = None
        RUNNING.remove(self)

    def _ready_or_dead(self) -> bool:
        process = self._running()
        if process.poll() is not None:
            self._forget()
            raise NodeError(f"{self.kind} ended with {process.returncode}\n{self.log_end()}")
        return self._is_ready()

    def _port_of_config(self) -> int:
        for line in self.config.read_text().splitlines():
            if line.startswith("listeners="):
                return int(line.split(",")[0].rsplit(":", 1)[1])
        raise AssertionError(f"no listeners in {self.config}")

    def _write_config(self, settings: Mapping[str, str]) -> None:
        port, controller_port = free_ports(2)
        listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}"
        values = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
            "listeners": listeners,
            "advertised.listeners": listeners,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "pykraft.http.port": "-1",
            **settings,
        }
        self.config.write_text("".join(f"{key}={value}\n" for key, value in values.items()))


class PykraftNode(Node):
    kind = "pykraft"

    def format(self) -> Self:
        command = [*self._python("format"), "--cluster-id", CLUSTER_ID, "--standalone"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        if done.returncode != 0:
            raise NodeError(f"pykraft format: {done.stdout}\n{done.stderr}")
        return self

    def _command(self) -> list[str]:
        return self._python("node")

    def _python(self, verb: str) -> list[str]:
        return [sys.executable, "-m", "pykraft", verb, "--config", str(self.config)]

    def _is_ready(self) -> bool:
        return f"ready: {self.bootstrap}" in self.log_since_start()


class ApacheNode(Node):
    kind = "kafka"

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        jvm: Sequence[str] = TEST_JVM,
    ) -> None:
        super().__init__(folder, settings)
        self.jvm = jvm

    def format(self) -> Self:
        verb = ("format", "--config", str(self.config), "--cluster-id", CLUSTER_ID)
        run_tool("kafka.tools.StorageTool", *verb, "--standalone")
        return self

    def _command(self) -> list[str]:
        return java("kafka.Kafka", str(self.config), options=self.jvm)

    def _is_ready(self) -> bool:
        return knows_a_broker(self.port)


KINDS: dict[str, type[Node]] = {"pykraft": PykraftNode, "kafka": ApacheNode}


def new_node(kind: str, folder: Path, settings: Mapping[str, str] | None = None) -> Node:
    """A node on an empty, formatted directory, not yet started."""
    return KINDS[kind](folder, settings).format()


def other_kind(node: Node) -> Node:
    """The other broker on the same folder and configuration; neither must run."""
    assert node.process is None, "stop it first"
    other = ApacheNode if isinstance(node, PykraftNode) else PykraftNode
    return other(node.folder)


def knows_a_broker(port: int) -> bool:
    """Whether the listener answers Metadata v1 with a broker: it has caught up and is unfenced."""
    request = b"\x00\x03\x00\x01\x00\x00\x00\x01\xff\xff" + b"\x00\x00\x00\x00"
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(len(request).to_bytes(4, "big") + request)
            answer = connection.recv(4096)
    except OSError:
        return False
    return int.from_bytes(answer[8:12], "big") > 0


def cpu_seconds(pid: int) -> float:
    """User and system time of a process with all its threads, ended ones included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def end_all() -> None:
    """End every node that a test left running."""
    for node in list(RUNNING):
        node.kill()


def _spawn(command: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    source = str(REPOSITORY / "broker-image" / "src")
    path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment
    )


def now_ms() -> int:
    return time.time_ns() // 1_000_000
