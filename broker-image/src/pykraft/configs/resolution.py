"""Which value counts, where it comes from, and what else would have been in its place.

A broker's configs lie in layers: its own dynamic ones over those of all brokers, over its
properties file, over Kafka's defaults. A topic's, a group's and a subscription's own lie on top.
The entries that `describe_*` give are DescribeConfigs' own, ready to encode.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pykraft.configs.broker import (
    BROKER_CONFIGS,
    broker_config,
    broker_synonyms,
    is_dynamic,
)
from pykraft.configs.definition import (
    ConfigDef,
    ConfigError,
    ConfigSource,
    ConfigType,
    Value,
    format_value,
    parse,
)
from pykraft.configs.group import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS, GROUP_SYNONYMS
from pykraft.configs.topic import MS_PER_UNIT, TOPIC_CONFIGS, TOPIC_SYNONYMS

Entry = dict[str, Any]
# A place in a synonym list: name, text as it was set, source.
Place = tuple[str, str, ConfigSource]


@dataclass(frozen=True, slots=True)
class BrokerLayers:
    """What was set for one broker, as text by name. Later fields lie over earlier ones."""

    static: Mapping[str, str] = field(default_factory=dict)
    dynamic_default: Mapping[str, str] = field(default_factory=dict)
    dynamic_broker: Mapping[str, str] = field(default_factory=dict)

    def effective(self) -> dict[str, str]:
        """What is set, seen from above.

        A dynamic value hides all its synonyms: log.retention.ms for all brokers counts for more
        than log.retention.hours in a file. One that cannot be read is passed over, so that a bad
        record in the metadata log cannot stop a broker.
        """
        merged = dict(self.static)
        for layer in (self.dynamic_default, self.dynamic_broker):
            for name, text in layer.items():
                if not _readable(name, text):
                    continue
                for synonym in broker_synonyms(name):
                    merged.pop(synonym, None)
                merged[name] = text
        return merged


def _readable(name: str, text: str) -> bool:
    config = broker_config(name)
    if config is None:
        return True
    try:
        parse(config, text)
    except ConfigError:
        return False
    return True


def broker_value(name: str, effective: Mapping[str, str]) -> Value | None:
    """The value of a broker config that Kafka defines, given `BrokerLayers.effective()`."""
    text = effective.get(name)
    config = BROKER_CONFIGS[name]
    return config.default if text is None else parse(config, text)


def effective_broker_configs(layers: BrokerLayers) -> dict[str, Value | None]:
    effective = layers.effective()
    return {name: broker_value(name, effective) for name in BROKER_CONFIGS}


def effective_topic_configs(
    overrides: Mapping[str, str], layers: BrokerLayers
) -> dict[str, Value | None]:
    """Every topic config by name, parsed. An override that cannot be read counts as not set."""
    effective = layers.effective()
    return {name: _topic_value(name, overrides, effective) for name in TOPIC_CONFIGS}


def _topic_value(
    name: str, overrides: Mapping[str, str], effective: Mapping[str, str]
) -> Value | None:
    config = TOPIC_CONFIGS[name]
    if name in overrides:
        try:
            return parse(config, overrides[name])
        except ConfigError:
            pass
    for synonym in TOPIC_SYNONYMS.get(name, ()):
        value = broker_value(synonym, effective)
        if value is not None:
            return _in_topic_units(name, synonym, value)
    return config.default


def _in_topic_units(name: str, synonym: str, value: Value) -> Value:
    if synonym in MS_PER_UNIT:
        assert isinstance(value, int)
        value *= MS_PER_UNIT[synonym]
    if name == "retention.ms":
        assert isinstance(value, int)
        # Any negative number of hours, minutes or milliseconds means for ever.
        return max(value, -1)
    return value


# Describing.


def describe_topic(
    overrides: Mapping[str, str],
    layers: BrokerLayers,
    names: Container[str] | None = None,
    include_synonyms: bool = True,
) -> list[Entry]:
    effective = layers.effective()
    entries = []
    for name, config in TOPIC_CONFIGS.items():
        if (names is not None and name not in names) or (config.internal and name not in overrides):
            continue
        value = format_value(_topic_value(name, overrides, effective))
        # Only the first synonym is looked up: a topic that lives by log.retention.hours shows none.
        behind = TOPIC_SYNONYMS.get(name, ())[:1]
        places = [place for synonym in behind for place in _places(synonym, layers)]
        if name in overrides:
            places.insert(0, (name, value or "", ConfigSource.TOPIC))
        entries.append(_entry(config, value, places, include_synonyms))
    return entries


def describe_broker(
    layers: BrokerLayers, names: Container[str] | None = None, include_synonyms: bool = True
) -> list[Entry]:
    effective = layers.effective()
    shown = {name for name, config in BROKER_CONFIGS.items() if not config.internal}
    return [
        _broker_entry(name, effective, _places(name, layers), include_synonyms)
        for name in sorted(shown.union(effective))
        if names is None or name in names
    ]


def describe_default_broker(
    dynamic_default: Mapping[str, str],
    names: Container[str] | None = None,
    include_synonyms: bool = True,
) -> list[Entry]:
    """What was set for all brokers, and nothing else: the resource with the empty name."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    return [
        _broker_entry(name, dynamic_default, [(name, text, source)], include_synonyms)
        for name, text in sorted(dynamic_default.items())
        if names is None or name in names
    ]


def describe_group(
    overrides: Mapping[str, str],
    layers: BrokerLayers,
    names: Container[str] | None = None,
    include_synonyms: bool = True,
) -> list[Entry]:
    effective = layers.effective()
    entries = []
    for name, config in GROUP_CONFIGS.items():
        if names is not None and name not in names:
            continue
        places, value = _behind_group(name, config, layers, effective)
        if name in overrides:
            value = format_value(parse(config, overrides[name]))
            places.insert(0, (name, value or "", ConfigSource.GROUP))
        entries.append(_entry(config, value, places, include_synonyms))
    return entries


def _behind_group(
    name: str, config: ConfigDef, layers: BrokerLayers, effective: Mapping[str, str]
) -> tuple[list[Place], str | None]:
    synonym = GROUP_SYNONYMS.get(name)
    if synonym is not None:
        return _places(synonym, layers), format_value(broker_value(synonym, effective))
    default = format_value(config.default)
    return [(name, default or "", ConfigSource.DEFAULT)], default


def describe_client_metrics(
    overrides: Mapping[str, str],
    names: Container[str] | None = None,
    include_synonyms: bool = True,
) -> list[Entry]:
    entries = []
    for name, config in CLIENT_METRICS_CONFIGS.items():
        if names is not None and name not in names:
            continue
        value = parse(config, overrides[name]) if name in overrides else config.default
        text = format_value(value)
        places = [(name, text or "", ConfigSource.CLIENT_METRICS)] if name in overrides else []
        entries.append(_entry(config, text, places, include_synonyms))
    return entries


def describe_loggers(levels: Mapping[str, str], names: Container[str] | None = None) -> list[Entry]:
    """Log levels by logger name, as Kafka shows its own."""
    return [
        {
            "name": name,
            "value": level,
            "read_only": False,
            "config_source": int(ConfigSource.DYNAMIC_BROKER_LOGGER),
            "is_sensitive": False,
            "synonyms": [],
            "config_type": int(ConfigType.UNKNOWN),
            "documentation": None,
        }
        for name, level in sorted(levels.items())
        if names is None or name in names
    ]


def created_topic_configs(overrides: Mapping[str, str], layers: BrokerLayers) -> list[Entry]:
    """The configs in the answer to CreateTopics: the text that was set, by name.

    Unlike DescribeConfigs, it looks at all synonyms, layer by layer, and does not read the text.
    """
    entries = []
    for name, config in sorted(TOPIC_CONFIGS.items()):
        if config.internal and name not in overrides:
            continue
        value, source = _created_value(name, config, overrides, layers)
        entries.append(
            {
                "name": name,
                "value": value,
                "read_only": False,
                "config_source": int(source),
                "is_sensitive": config.is_sensitive,
            }
        )
    return entries


def _created_value(
    name: str, config: ConfigDef, overrides: Mapping[str, str], layers: BrokerLayers
) -> tuple[str | None, ConfigSource]:
    if name in overrides:
        return overrides[name], ConfigSource.TOPIC
    for layer, source in _layers(layers):
        for synonym in TOPIC_SYNONYMS.get(name, ()):
            if synonym in layer:
                return _created_text(synonym, layer[synonym]), source
    return format_value(config.default), ConfigSource.DEFAULT


def _created_text(synonym: str, text: str) -> str:
    if synonym not in MS_PER_UNIT:
        return text
    value = parse(BROKER_CONFIGS[synonym], text)
    assert isinstance(value, int)
    return str(value * MS_PER_UNIT[synonym])


def _layers(layers: BrokerLayers) -> Iterable[tuple[Mapping[str, str], ConfigSource]]:
    return (
        (layers.dynamic_broker, ConfigSource.DYNAMIC_BROKER),
        (layers.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (layers.static, ConfigSource.STATIC_BROKER),
    )


def _places(name: str, layers: BrokerLayers) -> list[Place]:
    """Where `name` and its synonyms are set, the strongest first, down to the default.

    Kafka leaves out what lies over the first place that bears the name itself, hence it shows no
    synonyms at all for log.retention.ms where only the hours are set.
    """
    places: list[Place] = []
    for synonym in broker_synonyms(name):
        for layer, source in _layers(layers):
            if synonym in layer:
                places.append((synonym, layer[synonym], source))
        config = BROKER_CONFIGS.get(synonym)
        default = format_value(config.default) if config else None
        if default is not None:
            places.append((synonym, default, ConfigSource.DEFAULT))
    own = next((i for i, place in enumerate(places) if place[0] == name), len(places))
    return places[own:]


def _broker_entry(
    name: str, texts: Mapping[str, str], places: list[Place], include_synonyms: bool
) -> Entry:
    config = broker_config(name)
    if config is None:
        return _unknown_entry(name, places, include_synonyms)
    text = texts.get(name)
    value = config.default if text is None else parse(config, text)
    entry = _entry(config, format_value(value), places, include_synonyms)
    entry["name"] = name
    entry["read_only"] = not is_dynamic(name)
    return entry


def _unknown_entry(name: str, places: list[Place], include_synonyms: bool) -> Entry:
    """A name that nobody defined may be a plug-in's password, so it is shown as sensitive."""
    config = ConfigDef(name, ConfigType.PASSWORD, None)
    entry = _entry(config, None, places, include_synonyms)
    entry["read_only"] = True
    entry["config_type"] = int(ConfigType.UNKNOWN)
    return entry


def _entry(
    config: ConfigDef, value: str | None, places: list[Place], include_synonyms: bool
) -> Entry:
    hidden = config.is_sensitive
    return {
        "name": config.name,
        "value": None if hidden else value,
        "read_only": False,
        "config_source": int(places[0][2] if places else ConfigSource.DEFAULT),
        "is_sensitive": hidden,
        "synonyms": [
            {"name": name, "value": None if hidden else text, "source": int(source)}
            for name, text, source in (places if include_synonyms else ())
        ],
        "config_type": int(config.type),
        "documentation": None,
    }
