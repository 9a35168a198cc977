"""Listeners, advertised addresses and the quorum's addresses, with Kafka's rules about them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pykraft.settings.errors import SettingsError

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Listener(NamedTuple):
    """Where to listen, or what to tell clients.

    An empty host means every address of this machine; port 0 means any free port.
    """

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


class Voter(NamedTuple):
    id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Addresses:
    """What a node's listener keys come to.

    Invariant: a broker has an advertised listener, a controller a controller listener.
    """

    broker_listeners: tuple[Listener, ...]
    controller_listeners: tuple[Listener, ...]
    advertised_listeners: tuple[Listener, ...]
    advertised_controller_listeners: tuple[Listener, ...]
    inter_broker_listener_name: str


_LISTENER = re.compile(r"(?P<name>[^:/\s]+)://(?P<host>\[[^\]]*\]|[^:\[\]/]*):(?P<port>\d{1,5})")
_ADDRESS = re.compile(r"(?P<host>\[[^\]]+\]|[^:@\[\]]+):(?P<port>\d{1,5})")
_VOTER = re.compile(rf"(?P<id>\d{{1,10}})@{_ADDRESS.pattern}")


def parse_listeners(key: str, entries: Iterable[str]) -> tuple[Listener, ...]:
    listeners = tuple(_parse_listener(key, entry) for entry in entries)
    _check_distinct(key, listeners)
    return listeners


def _parse_listener(key: str, entry: str) -> Listener:
    found = _LISTENER.fullmatch(entry)
    if found is None or int(found["port"]) > 65535:
        allowed = "an entry must be NAME://HOST:PORT, such as PLAINTEXT://0.0.0.0:9092 or NAME://:0"
        raise SettingsError(key, entry, allowed)
    return Listener(found["name"].upper(), found["host"].strip("[]"), int(found["port"]))


def _check_distinct(key: str, listeners: Sequence[Listener]) -> None:
    for index, one in enumerate(listeners):
        for other in listeners[:index]:
            if one.name == other.name:
                raise SettingsError(key, str(one), f"{other} has the same name")
            # One port may serve two listeners if one is IPv4 and the other IPv6.
            two_families = (":" in one.host) != (":" in other.host)
            if key == "listeners" and one.port == other.port != 0 and not two_families:
                raise SettingsError(key, str(one), f"{other} has the same port")


def parse_voters(entries: Iterable[str]) -> tuple[Voter, ...]:
    key = "controller.quorum.voters"
    voters = []
    for entry in entries:
        found = _VOTER.fullmatch(entry)
        if found is None or int(found["port"]) > 65535:
            raise SettingsError(
                key, entry, "an entry must be ID@HOST:PORT, such as 1@localhost:9093"
            )
        voters.append(Voter(int(found["id"]), found["host"].strip("[]"), int(found["port"])))
    return tuple(voters)


def parse_bootstrap_servers(entries: Iterable[str]) -> tuple[tuple[str, int], ...]:
    key = "controller.quorum.bootstrap.servers"
    servers = []
    for entry in entries:
        found = _ADDRESS.fullmatch(entry)
        if found is None or int(found["port"]) > 65535:
            raise SettingsError(key, entry, "an entry must be HOST:PORT, such as localhost:9093")
        servers.append((found["host"].strip("[]"), int(found["port"])))
    return tuple(servers)


def parse_protocol_map(text: str) -> dict[str, str]:
    key = "listener.security.protocol.map"
    protocols = {}
    for entry in filter(None, (each.strip() for each in text.split(","))):
        name, colon, protocol = (part.strip().upper() for part in entry.rpartition(":"))
        del colon
        if not name or protocol not in SECURITY_PROTOCOLS:
            allowed = f"an entry must be NAME:PROTOCOL with one of {', '.join(SECURITY_PROTOCOLS)}"
            raise SettingsError(key, entry, allowed)
        protocols[name] = protocol
    return protocols


def resolve_addresses(
    *,
    roles: frozenset[str],
    listeners: tuple[Listener, ...],
    advertised: tuple[Listener, ...] | None,
    controller_names: tuple[str, ...],
    inter_broker_name: str,
    protocols: Mapping[str, str],
) -> Addresses:
    """Apply Kafka's rules about which listener may be whose."""
    _check_plaintext((*listeners, *(advertised or ())), protocols)
    own_names = {listener.name for listener in listeners}
    _check_controller_names(roles, own_names, controller_names)
    chosen = listeners if advertised is None else advertised
    told = {listener.name: listener for listener in chosen}
    for_clients = tuple(each for each in chosen if each.name not in controller_names)
    if "broker" in roles:
        _check_advertised(for_clients, inter_broker_name)
    controllers = tuple(each for each in listeners if each.name in controller_names)
    return Addresses(
        broker_listeners=tuple(each for each in listeners if each.name not in controller_names),
        controller_listeners=controllers,
        advertised_listeners=for_clients if "broker" in roles else (),
        advertised_controller_listeners=tuple(told.get(each.name, each) for each in controllers),
        inter_broker_listener_name=inter_broker_name,
    )


def _check_plaintext(listeners: Iterable[Listener], protocols: Mapping[str, str]) -> None:
    for listener in listeners:
        protocol = protocols.get(listener.name)
        if protocol is None:
            allowed = (
                f"no security protocol is set for {listener.name}; add {listener.name}:PLAINTEXT"
            )
            raise SettingsError("listener.security.protocol.map", None, allowed)
        if protocol != "PLAINTEXT":
            allowed = f"{listener.name} is {protocol}, and only PLAINTEXT is implemented"
            raise SettingsError("listeners", str(listener), allowed)


def _check_controller_names(
    roles: frozenset[str], own_names: set[str], controller_names: tuple[str, ...]
) -> None:
    key, value = "controller.listener.names", ",".join(controller_names)
    if "controller" in roles and own_names.isdisjoint(controller_names):
        allowed = (
            f"a controller needs one of these names in listeners, which has {_names(own_names)}"
        )
        raise SettingsError(key, value, allowed)
    if "broker" not in roles and not own_names.issubset(controller_names):
        allowed = "with process.roles=controller, all listeners must be named here; there are also "
        raise SettingsError(key, value, allowed + _names(own_names.difference(controller_names)))
    if "controller" not in roles and not own_names.isdisjoint(controller_names):
        allowed = "with process.roles=broker, no listener of this node may be named here"
        raise SettingsError(key, value, allowed)


def _check_advertised(for_clients: tuple[Listener, ...], inter_broker_name: str) -> None:
    if not for_clients:
        allowed = "a broker needs a listener that is not in controller.listener.names"
        raise SettingsError("advertised.listeners", None, allowed)
    for listener in for_clients:
        if listener.host in ("0.0.0.0", "::"):
            allowed = (
                "clients cannot connect to this address; set advertised.listeners to one they can"
            )
            raise SettingsError("advertised.listeners", str(listener), allowed)
    names = {listener.name for listener in for_clients}
    if inter_broker_name not in names:
        allowed = f"must be one of the advertised listeners: {_names(names)}"
        raise SettingsError("inter.broker.listener.name", inter_broker_name, allowed)


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
