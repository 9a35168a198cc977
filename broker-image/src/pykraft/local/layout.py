"""Where a local cluster lives: its folder, its ports and the server.properties made for it.

DIR/node-1/server.properties    written anew at each start
DIR/node-1/data/                the log directory
"""

import socket
from dataclasses import dataclass
from pathlib import Path

from pykraft.local.spec import ClusterSpec, SpecError
from pykraft.settings import Settings, SettingsError, format_properties, parse_properties

HOST = "127.0.0.1"
NODE_ID = 1
# What `up` itself decides; a cluster's config cannot.
RESERVED_KEYS = frozenset(
    (
        "advertised.listeners",
        "broker.id",
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
        "node.id",
        "process.roles",
    )
)
_HEADER = "# Written by `pykraft up` at each start: change the cluster's YAML, not this file.\n"


@dataclass(frozen=True, slots=True)
class NodeFiles:
    config: Path
    data: Path

    @property
    def is_formatted(self) -> bool:
        return (self.data / "meta.properties").exists()


def node_files(data_dir: Path) -> NodeFiles:
    folder = data_dir.absolute() / f"node-{NODE_ID}"
    return NodeFiles(config=folder / "server.properties", data=folder / "data")


def write_config(spec: ClusterSpec, files: NodeFiles, port: int) -> None:
    """Write the node's server.properties; SpecError if the cluster's config cannot be."""
    properties = node_properties(spec, files, port, controller_port(files, port))
    try:
        Settings.from_properties(properties)
    except SettingsError as error:
        raise SpecError(f"KafkaCluster {spec.name}: spec.config: {error}") from None
    files.data.mkdir(parents=True, exist_ok=True)
    files.config.write_text(_HEADER + format_properties(properties))


def node_properties(
    spec: ClusterSpec, files: NodeFiles, port: int, controller: int
) -> dict[str, str]:
    for key in spec.config:
        if key in RESERVED_KEYS:
            allowed = "is set by `pykraft up` itself; take it out"
            raise SpecError(f"KafkaCluster {spec.name}: spec.config.{key}: {allowed}")
    # With any free port for clients, the HTTP port is any free one too: several such clusters
    # (tests, mostly) can then run beside each other.
    http = {"pykraft.http.port": "0"} if port == 0 else {}
    return {
        "process.roles": "broker,controller",
        "node.id": str(NODE_ID),
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"{HOST}:{controller}",
        "log.dirs": str(files.data),
        **http,
        **spec.config,
    }


def controller_port(files: NodeFiles, port: int) -> int:
    """The controller's port of the last start, since the quorum's voters are kept with it."""
    if files.config.exists():
        servers = parse_properties(files.config.read_text()).get(
            "controller.quorum.bootstrap.servers", ""
        )
        known = servers.rpartition(":")[2]
        if known.isdecimal():
            return int(known)
    return port + 1 if 0 < port < 65535 else _free_port()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
