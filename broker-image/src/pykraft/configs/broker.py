"""All broker configs by name, and the rules by which one name stands for another."""

import re

from pykraft.configs.coordinators import COORDINATOR_CONFIGS
from pykraft.configs.definition import LONG_MAX, ConfigDef, ConfigType, UpdateMode, at_least
from pykraft.configs.security import SECURITY_CONFIGS
from pykraft.configs.server import SERVER_CONFIGS
from pykraft.configs.tiering import TIERING_CONFIGS

BROKER_CONFIGS: dict[str, ConfigDef] = {
    config.name: config
    for table in (SERVER_CONFIGS, COORDINATOR_CONFIGS, SECURITY_CONFIGS, TIERING_CONFIGS)
    for config in table
}

# Replication throttles exist only as dynamic configs; in a properties file they are unknown names.
DYNAMIC_ONLY_CONFIGS: dict[str, ConfigDef] = {
    name: ConfigDef(name, ConfigType.LONG, LONG_MAX, at_least(0), UpdateMode.CLUSTER_WIDE)
    for name in (
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    )
}

# A listener's certificates change with the listener's prefix only, never for all listeners.
LISTENER_SECURITY_CONFIGS = frozenset(
    (
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    )
)

_LISTENER_PREFIX = re.compile(r"listener\.name\.[^.]*\.(.+)")

_UNITS: tuple[tuple[str, ...], ...] = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_SYNONYMS: dict[str, tuple[str, ...]] = {
    **{name: names for names in _UNITS for name in names},
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
}


def broker_synonyms(name: str) -> tuple[str, ...]:
    """The names that can give `name` its value, the strongest first."""
    if name in _SYNONYMS:
        return _SYNONYMS[name]
    base = base_of_listener_config(name)
    return (name,) if base is None else (name, base)


def base_of_listener_config(name: str) -> str | None:
    """`ssl.x` for `listener.name.internal.ssl.x`; None for a name without that prefix."""
    found = _LISTENER_PREFIX.fullmatch(name)
    return found[1] if found else None


def broker_config(name: str) -> ConfigDef | None:
    """The definition behind a static or dynamic name; None when nobody defined it."""
    known = BROKER_CONFIGS.get(name) or DYNAMIC_ONLY_CONFIGS.get(name)
    if known is not None:
        return known
    base = base_of_listener_config(name)
    return BROKER_CONFIGS.get(base) if base else None


def is_dynamic(name: str) -> bool:
    """Whether `name` itself (not a listener's form of it) may change while the broker runs."""
    config = BROKER_CONFIGS.get(name) or DYNAMIC_ONLY_CONFIGS.get(name)
    return config is not None and config.mode is not UpdateMode.READ_ONLY
