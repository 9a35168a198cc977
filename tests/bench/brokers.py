"""The two brokers under test, each as its own project starts it by default, and their figures.

Both get the same server.properties. It differs from the defaults only in what makes a single node
possible at all (one replica) and in how soon deleted files go, so that rows do not pile up on disk.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_SUPPORT = Path(__file__).resolve().parents[2] / "broker-image" / "tests" / "support"
sys.path.append(str(_SUPPORT))

from processes import ApacheNode, Node, PykraftNode, cpu_seconds, resident_bytes  # noqa: E402
from raw_client import ConnectionClosedError, RawClient  # noqa: E402
from waiting import eventually  # noqa: E402

__all__ = [
    "KAFKA",
    "PYKRAFT",
    "Broker",
    "ConnectionClosedError",
    "Node",
    "RawClient",
    "cpu_seconds",
    "eventually",
    "machine_cpu_seconds",
    "resident_bytes",
]

KAFKA, PYKRAFT = "kafka", "pykraft"
# What kafka-server-start gives the JVM.
SERVER_JVM = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
SETTINGS = {
    # Deleted topics leave the disk between two rows; by default Kafka begins after 30 s, then
    # waits for 60 s.
    "log.segment.delete.delay.ms": "200",
    "log.initial.task.delay.ms": "500",
}
READY_SECONDS_MAX = 60
GONE_SECONDS_MAX = 60
CREATE_TOPICS, DELETE_TOPICS, LIST_OFFSETS = (19, 7), (20, 6), (2, 7)
LATEST = -1


class ProfiledNode(PykraftNode):
    """pykraft under cProfile; the profile is written when it stops."""

    @property
    def profile(self) -> Path:
        return self.folder / "node.profile"

    def _command(self) -> list[str]:
        python, *rest = super()._command()
        return [python, "-m", "cProfile", "-o", str(self.profile), *rest]


class Broker:
    """A broker on its own folder, and what a client may ask of it."""

    def __init__(self, kind: str, folder: Path, *, profiled: bool = False) -> None:
        self.kind = kind
        self.node: Node
        if kind == KAFKA:
            self.node = ApacheNode(folder, SETTINGS, jvm=SERVER_JVM)
        else:
            self.node = (ProfiledNode if profiled else PykraftNode)(folder, SETTINGS)
        self.node.format()
        self.port = self.node.port

    def launch(self) -> None:
        """Start the process and do not wait."""
        self.node.launch()

    def stop(self) -> None:
        self.node.stop()

    def end(self) -> None:
        if self.node.process is not None:
            self.node.kill()

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.node.pid())

    def resident_bytes(self) -> int:
        return resident_bytes(self.node.pid())

    @contextmanager
    def topic(self, name: str, partitions: int) -> Iterator[str]:
        """A topic that is there inside the block; afterwards also its files are gone."""
        self.create_topic(name, partitions)
        yield name
        self.delete_topic(name)

    def create_topic(self, name: str, partitions: int) -> None:
        """Create it as soon as the broker listens, and wait until it leads every partition."""
        wanted = {"name": name, "num_partitions": partitions, "replication_factor": 1}

        def created() -> bool:
            reply = self._ask(CREATE_TOPICS, topics=[wanted], timeout=30_000)
            if reply is None:
                return False
            (topic,) = reply["topics"]
            # A broker that is not yet unfenced cannot place a replica.
            if topic["error_code"] not in (0, 36, 38):
                raise AssertionError(f"{self.kind} does not create {name}: {topic}")
            return bool(topic["error_code"] in (0, 36))

        eventually(created, within_s=READY_SECONDS_MAX, because=f"{self.kind} creates {name}")
        self.log_end_offsets(name, partitions)

    def delete_topic(self, name: str) -> None:
        reply = self._ask(DELETE_TOPICS, topics=[{"name": name}], timeout=30_000)
        assert reply is not None, f"{self.kind} does not answer"
        assert reply["responses"][0]["error_code"] == 0, f"{self.kind}: {reply}"
        eventually(
            lambda: not self._folders_of(name),
            within_s=GONE_SECONDS_MAX,
            because=f"{self.kind} deletes the files of {name}",
        )

    def log_end_offsets(self, name: str, partitions: int) -> list[int]:
        """Every partition's log end offset, once the broker leads them all."""
        wanted = [{"partition_index": n, "timestamp": LATEST} for n in range(partitions)]
        for each in wanted:
            each["current_leader_epoch"] = -1

        def all_led() -> list[int] | None:
            reply = self._ask(LIST_OFFSETS, topics=[{"name": name, "partitions": wanted}])
            if reply is None:
                return None
            found = {p["partition_index"]: p for p in reply["topics"][0]["partitions"]}
            if any(p["error_code"] for p in found.values()):
                return None
            return [found[n]["offset"] for n in range(partitions)]

        because = f"{self.kind} leads all partitions of {name}"
        offsets = eventually(all_led, within_s=READY_SECONDS_MAX, because=because)
        assert offsets is not None
        return offsets

    def _folders_of(self, name: str) -> list[str]:
        with suppress(FileNotFoundError):
            return [each for each in os.listdir(self.node.data) if each.startswith(f"{name}-")]
        return []

    def _ask(self, api: tuple[int, int], **values: object) -> dict[str, Any] | None:
        """The answer, or None while nobody listens."""
        process = self.node.process
        assert process is not None, "not started"
        if process.poll() is not None:
            raise AssertionError(f"{self.kind} ended: {self.node.log_end()}")
        try:
            with RawClient(self.port) as client:
                return client.ask(api[0], api[1], **values)
        except (OSError, ConnectionClosedError):
            return None


def machine_cpu_seconds() -> float:
    """What all processes together and the machine's host took from us since it started."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, fields)
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
