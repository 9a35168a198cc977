"""A node's settings: Kafka's server.properties as typed values, read once and never changed."""

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from pykraft.configs import (
    BROKER_CONFIGS,
    BrokerLayers,
    ConfigDef,
    ConfigError,
    ConfigType,
    Value,
    effective_broker_configs,
    effective_topic_configs,
    parse,
)
from pykraft.configs.definition import between, one_of
from pykraft.configs.topic import TOPIC_SYNONYMS
from pykraft.configs.validation import broken_rule
from pykraft.settings.errors import SettingsError
from pykraft.settings.listeners import (
    Addresses,
    Listener,
    Voter,
    parse_bootstrap_servers,
    parse_listeners,
    parse_protocol_map,
    parse_voters,
    resolve_addresses,
)
from pykraft.settings.properties import decode_properties, parse_properties

# Keys that Kafka does not have.
OWN_CONFIGS: dict[str, ConfigDef] = {
    config.name: config
    for config in (
        ConfigDef("pykraft.http.host", ConfigType.STRING, "127.0.0.1"),
        # -1 opens none; 0 takes any free port.
        ConfigDef("pykraft.http.port", ConfigType.INT, 9404, between(-1, 65535)),
        ConfigDef("pykraft.log.format", ConfigType.STRING, "text", one_of("text", "json")),
        ConfigDef(
            "pykraft.log.level",
            ConfigType.STRING,
            "info",
            one_of("debug", "info", "warning", "error"),
        ),
    )
}

# Keys that the fields below are made of, though none has their name.
_KEYS_BEHIND_FIELDS = frozenset(
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
        # How topics of Kafka's own are made when a client asks for one.
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        "offsets.topic.segment.bytes",
        "share.coordinator.state.topic.min.isr",
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.segment.bytes",
        "transaction.state.log.min.isr",
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
        "transaction.state.log.segment.bytes",
        "max.connections.per.ip.overrides",
        "metadata.log.dir",
        "node.id",
        "process.roles",
        "security.inter.broker.protocol",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the node goes by. A field is named as its key, with underscores for dots.

    The configs that stand behind topic configs (log.segment.bytes, message.max.bytes and so on)
    are not fields: dynamic and topic configs lie over them, so they are read through `layers`.
    """

    node_id: int
    roles: frozenset[str]
    addresses: Addresses
    # The static quorum; empty when the voters are in the metadata log (KIP-853).
    quorum_voters: tuple[Voter, ...]
    quorum_bootstrap_servers: tuple[tuple[str, int], ...]
    log_dirs: tuple[str, ...]
    metadata_log_dir: str
    max_connections_per_ip_overrides: Mapping[str, int]
    # All keys as they were set, for DescribeConfigs and for the topic configs' defaults.
    # They may hold passwords, so they are not printed.
    static: Mapping[str, str] = field(repr=False)
    # Lines to log once at the start.
    warnings: tuple[str, ...]

    # Connections.
    socket_request_max_bytes: int
    socket_send_buffer_bytes: int
    socket_receive_buffer_bytes: int
    socket_listen_backlog_size: int
    max_connections: int
    max_connections_per_ip: int
    connections_max_idle_ms: int

    # Topics that are created without saying how.
    num_partitions: int
    default_replication_factor: int
    auto_create_topics_enable: bool
    delete_topic_enable: bool

    # Logs.
    log_retention_check_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    producer_id_expiration_ms: int
    producer_id_expiration_check_interval_ms: int

    # Reading.
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int

    # The metadata log.
    metadata_log_max_record_bytes_between_snapshots: int
    metadata_log_max_snapshot_interval_ms: int
    metadata_log_segment_bytes: int
    metadata_log_segment_ms: int
    metadata_max_idle_interval_ms: int
    metadata_max_retention_bytes: int
    metadata_max_retention_ms: int
    # For tests, smaller than Kafka lets a user choose; None means metadata.log.segment.bytes.
    internal_metadata_log_segment_bytes: int | None
    internal_metadata_max_batch_size_in_bytes: int

    # Brokers and their controller.
    broker_heartbeat_interval_ms: int
    broker_session_timeout_ms: int
    broker_rack: str | None
    controlled_shutdown_enable: bool

    # Ours.
    pykraft_http_host: str
    pykraft_http_port: int
    pykraft_log_format: str
    pykraft_log_level: str

    @classmethod
    def load(cls, path: str | Path, overrides: Mapping[str, str] | None = None) -> Self:
        """Read a server.properties; `overrides` count for more than the file."""
        try:
            raw = Path(path).read_bytes()
        except OSError as error:
            raise SettingsError("config file", str(path), str(error.strerror)) from None
        return cls.from_properties(
            {**parse_properties(decode_properties(raw)), **(overrides or {})}
        )

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        static = _with_both_ids(properties)
        values = _parse_all(static)
        roles = frozenset(_strings(values["process.roles"]))
        node_id = values["node.id"]
        assert isinstance(node_id, int)
        log_dirs = _strings(values["log.dirs"] or values["log.dir"])
        voters, bootstrap = _quorum(values, node_id, roles)
        # Fields and definitions agree in type; a unit test holds them to it.
        plain: dict[str, Any] = {name: values[key] for name, key in _plain_fields().items()}
        return cls(
            node_id=node_id,
            roles=roles,
            addresses=_addresses(values, static, roles),
            quorum_voters=voters,
            quorum_bootstrap_servers=bootstrap,
            log_dirs=log_dirs,
            metadata_log_dir=str(values["metadata.log.dir"] or log_dirs[0]),
            max_connections_per_ip_overrides=_connection_overrides(values),
            static=static,
            warnings=_warnings(static),
            **plain,
        )

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.roles

    @property
    def layers(self) -> BrokerLayers:
        """This node's file, to lay dynamic configs over with `dataclasses.replace`."""
        return BrokerLayers(static=self.static)

    def topic_defaults(self) -> dict[str, Value | None]:
        """Topic configs by Kafka's name where neither a topic nor a dynamic config says other."""
        return effective_topic_configs({}, self.layers)

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """All that this node opens."""
        return self.addresses.broker_listeners + self.addresses.controller_listeners


def advertise(
    listeners: tuple[Listener, ...],
    bound_ports: Mapping[str, int],
    hostname: Callable[[], str] = socket.getfqdn,
) -> tuple[Listener, ...]:
    """Listeners as to be told to others, once it is known which ports they got.

    Without a host it is this machine's own name, as in Kafka.
    """
    return tuple(
        Listener(each.name, each.host or hostname(), each.port or bound_ports[each.name])
        for each in listeners
    )


def _plain_fields() -> dict[str, str]:
    """Fields that hold the parsed value of the key of the same name."""
    keys = {each.name: each.name.replace("_", ".") for each in fields(Settings)}
    return {
        name: key
        for name, key in keys.items()
        if (key in BROKER_CONFIGS or key in OWN_CONFIGS) and key not in _KEYS_BEHIND_FIELDS
    }


def implemented_keys() -> frozenset[str]:
    """Kafka's keys that change what this node does."""
    behind_topics = (key for keys in TOPIC_SYNONYMS.values() for key in keys)
    return _KEYS_BEHIND_FIELDS.union(_plain_fields().values(), behind_topics)


def _with_both_ids(properties: Mapping[str, str]) -> dict[str, str]:
    """node.id and broker.id are one; Kafka shows both, whichever the file has."""
    static = dict(properties)
    node_id, broker_id = static.get("node.id"), static.get("broker.id")
    if node_id is not None and broker_id is not None and node_id.strip() != broker_id.strip():
        raise SettingsError("node.id", node_id, f"must be the same as broker.id={broker_id}")
    either = node_id if node_id is not None else broker_id
    if either is not None:
        static["node.id"] = static["broker.id"] = either
    return static


def _parse_all(static: Mapping[str, str]) -> dict[str, Value | None]:
    """Every key of Kafka's and ours, so that a bad value stops the start even where unused."""
    for key, config in BROKER_CONFIGS.items():
        if config.required and key not in static:
            raise SettingsError(key, None, "is required and has no default")
    for key, text in static.items():
        _check(key, text)
    values = effective_broker_configs(BrokerLayers(static=static))
    for key, config in OWN_CONFIGS.items():
        values[key] = parse(config, static[key]) if key in static else config.default
    broken = broken_rule(values)
    if broken is not None:
        key, _, rule = broken.partition(" ")
        raise SettingsError(key, static.get(key), rule)
    return values


def _check(key: str, text: str) -> None:
    config = BROKER_CONFIGS.get(key) or OWN_CONFIGS.get(key)
    if config is None:
        return
    try:
        parse(config, text)
    except ConfigError as error:
        raise SettingsError(key, text, error.allowed) from None


def _strings(value: Any) -> tuple[str, ...]:
    assert isinstance(value, tuple)
    return value


def _quorum(
    values: Mapping[str, Value | None], node_id: int, roles: frozenset[str]
) -> tuple[tuple[Voter, ...], tuple[tuple[str, int], ...]]:
    voters = parse_voters(_strings(values["controller.quorum.voters"]))
    bootstrap = parse_bootstrap_servers(_strings(values["controller.quorum.bootstrap.servers"]))
    if not voters and not bootstrap:
        allowed = "list the controllers as HOST:PORT,... (or as ID@HOST:PORT,... in "
        allowed += "controller.quorum.voters)"
        raise SettingsError("controller.quorum.bootstrap.servers", None, allowed)
    ids = {voter.id for voter in voters}
    if voters and (node_id in ids) != ("controller" in roles):
        must = "must be among" if "controller" in roles else "must not be among"
        shown = ", ".join(map(str, sorted(ids)))
        allowed = f"{must} the ids in controller.quorum.voters ({shown}) with these process.roles"
        raise SettingsError("node.id", str(node_id), allowed)
    return voters, bootstrap


def _addresses(
    values: Mapping[str, Value | None], static: Mapping[str, str], roles: frozenset[str]
) -> Addresses:
    advertised = values["advertised.listeners"]
    names = tuple(name.upper() for name in _strings(values["controller.listener.names"]))
    protocols = parse_protocol_map(str(values["listener.security.protocol.map"]))
    if "listener.security.protocol.map" not in static:
        # Kafka maps the controllers' listeners too unless the file has a map of its own.
        protocols = dict.fromkeys(names, "PLAINTEXT") | protocols
    return resolve_addresses(
        roles=roles,
        listeners=parse_listeners("listeners", _strings(values["listeners"])),
        advertised=None
        if advertised is None
        else parse_listeners("advertised.listeners", _strings(advertised)),
        controller_names=names,
        inter_broker_name=_inter_broker_name(values, static),
        protocols=protocols,
    )


def _inter_broker_name(values: Mapping[str, Value | None], static: Mapping[str, str]) -> str:
    name = values["inter.broker.listener.name"]
    if name is None:
        return str(values["security.inter.broker.protocol"])
    if "security.inter.broker.protocol" in static:
        allowed = "set this or security.inter.broker.protocol, not both"
        raise SettingsError("inter.broker.listener.name", str(name), allowed)
    return str(name).upper()


def _connection_overrides(values: Mapping[str, Value | None]) -> dict[str, int]:
    key = "max.connections.per.ip.overrides"
    overrides = {}
    for entry in filter(None, str(values[key]).split(",")):
        host, _, count = entry.rpartition(":")
        if not host or not count.strip().isdecimal():
            raise SettingsError(key, entry, "an entry must be HOST:COUNT, such as 10.0.0.7:20")
        overrides[host.strip()] = int(count)
    return overrides


def _warnings(static: Mapping[str, str]) -> tuple[str, ...]:
    implemented = implemented_keys()
    idle = sorted(key for key in static if key in BROKER_CONFIGS and key not in implemented)
    unknown = sorted(key for key in static if key not in BROKER_CONFIGS and key not in OWN_CONFIGS)
    lines = []
    if idle:
        lines.append(f"these keys of Kafka have no effect here: {', '.join(idle)}")
    if unknown:
        lines.append(f"these keys are not known: {', '.join(unknown)}")
    return tuple(lines)
