"""The life of a local cluster: format, start, create its topics, say ready, wait, stop."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from pykraft.ids import uuid_to_text
from pykraft.local.layout import HOST, NodeFiles, node_files, write_config
from pykraft.local.process import NodeError, NodeProcess, forwarding_signals, pykraft_command
from pykraft.local.spec import ClusterSpec, SpecError, parse_cluster
from pykraft.protocol.errors import KafkaError
from pykraft.runtime.identity import new_uuid

# What runs without a file.
DEFAULT_CLUSTER = ClusterSpec(name="local")


def up(
    file: Path | None,
    *,
    port: int,
    data_dir: Path | None = None,
    brokers: int | None = None,
    controllers: int | None = None,
) -> int:
    """Run the cluster until it is stopped; its exit code. SpecError if it cannot be run."""
    spec = load_spec(file, brokers, controllers)
    for line in spec.ignored:
        _say(line)
    files = node_files(data_dir or Path("data") / spec.name)
    write_config(spec, files, port)
    if not files.is_formatted and not _format(files):
        return 1
    node = NodeProcess(pykraft_command("node", "--config", str(files.config)))
    with forwarding_signals(node.stop):
        return _run(node, spec)


def load_spec(file: Path | None, brokers: int | None, controllers: int | None) -> ClusterSpec:
    spec = DEFAULT_CLUSTER if file is None else _read(file)
    spec = replace(
        spec,
        brokers=spec.brokers if brokers is None else brokers,
        controllers=spec.controllers if controllers is None else controllers,
    )
    if spec.brokers != 1 or spec.controllers > 1:
        raise SpecError(
            f"KafkaCluster {spec.name}: {spec.brokers} brokers and {spec.controllers} controllers: "
            "several nodes come with the quorum; for now use 1 broker with 0 or 1 controllers"
        )
    for topic in spec.topics:
        if topic.replicas > spec.brokers:
            raise SpecError(
                f"topic {topic.name}: spec.replicas={topic.replicas}: "
                f"there cannot be more replicas than brokers ({spec.brokers})"
            )
    return spec


def _read(file: Path) -> ClusterSpec:
    try:
        text = file.read_text()
    except OSError as error:
        raise SpecError(f"{file}: {error.strerror}") from None
    try:
        return parse_cluster(text)
    except SpecError as error:
        raise SpecError(f"{file}: {error}") from None


def _format(files: NodeFiles) -> bool:
    identity = ("--cluster-id", uuid_to_text(new_uuid()), "--standalone")
    command = pykraft_command("format", "--config", str(files.config), *identity)
    # Its messages go with ours to stderr: on stdout a script waits for `ready:` alone.
    return subprocess.run(command, stdout=sys.stderr, check=False).returncode == 0


def _run(node: NodeProcess, spec: ClusterSpec) -> int:
    try:
        address = node.wait_until_ready()
        _create_topics(address, spec)
        print(f"ready: {address}", flush=True)
    except (NodeError, KafkaError, SpecError, OSError) as error:
        if not node.is_stopping:
            _say(str(error))
            node.stop()
            return node.wait() or 1
    return node.wait()


def _create_topics(address: str, spec: ClusterSpec) -> None:
    if not spec.topics:
        return
    # kio is slow to import, and a cluster without topics needs none of it.
    from pykraft.local.admin import Admin
    from pykraft.local.topics import reconcile

    with Admin(HOST, int(address.rpartition(":")[2])) as admin:
        for action in reconcile(admin, spec.topics):
            _say(str(action))


def _say(line: str) -> None:
    print(f"pykraft up: {line}", file=sys.stderr, flush=True)
