"""What a config is: a name, a type, a default, what is allowed, and who may change it.

Texts are read and printed as Apache Kafka does, because clients compare what DescribeConfigs
prints with what they set.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntEnum

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
DOUBLE_MAX = 1.7976931348623157e308

# A list is a tuple of texts. None stands for "not set", which only some configs may be.
Value = bool | int | float | str | tuple[str, ...]


class ConfigType(IntEnum):
    """The type codes of DescribeConfigs; 0 is for a name that nobody defined."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """The source codes of DescribeConfigs: where a value comes from."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class UpdateMode(Enum):
    """How a broker config may change while the broker runs."""

    READ_ONLY = "read-only"
    # For one broker at a time only, such as a listener's keystore.
    PER_BROKER = "per-broker"
    # For one broker, or for all of them at once.
    CLUSTER_WIDE = "cluster-wide"


class ConfigError(Exception):
    """A value is not allowed; the message names the config, the value and what is allowed."""

    def __init__(self, message: str, allowed: str | None = None) -> None:
        super().__init__(message)
        # The end of the message, for who names config and value in another way.
        self.allowed = allowed or message


Validator = Callable[[str, Value], None]


@dataclass(frozen=True, slots=True)
class ConfigDef:
    name: str
    type: ConfigType
    default: Value | None
    validator: Validator | None = None
    mode: UpdateMode = UpdateMode.READ_ONLY
    # Not shown by DescribeConfigs unless somebody sets it.
    internal: bool = False
    required: bool = False

    @property
    def is_sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD


def bad_value(name: str, value: object, why: str) -> ConfigError:
    return ConfigError(f"Invalid value {value} for configuration {name}: {why}", why)


def parse(config: ConfigDef, text: str) -> Value:
    """The value that `text` stands for, checked; ConfigError says what is wrong with it."""
    value = _PARSERS[config.type](config, _trim(text))
    if config.validator is not None:
        config.validator(config.name, value)
    if isinstance(value, tuple) and isinstance(config.validator, list_of):
        return tuple(dict.fromkeys(value))
    return value


def format_value(value: Value | None) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return format_double(value)
    if isinstance(value, tuple):
        return ",".join(value)
    return None if value is None else str(value)


def format_double(value: float) -> str:
    """As Java prints a double: 0.5, 1.0E-5, NaN."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    from decimal import Decimal

    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    tail = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{tail}E{len(digits) + exponent - 1}"


def _trim(text: str) -> str:
    # Java's trim, which knows no other white space than control characters and the blank.
    return text.strip("".join(map(chr, range(33))))


def _parse_boolean(config: ConfigDef, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise bad_value(config.name, text, "Expected value to be either true or false")
    return text.lower() == "true"


_INTEGER = re.compile(r"[+-]?\d+")
_DOUBLE = re.compile(r"[+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?)", re.ASCII)
_INTEGER_BITS = {ConfigType.SHORT: 15, ConfigType.INT: 31, ConfigType.LONG: 63}


def _parse_integer(config: ConfigDef, text: str) -> int:
    limit = 1 << _INTEGER_BITS[config.type]
    # The length is bounded first: int() of a very long text takes long.
    if len(text) > 40 or not _INTEGER.fullmatch(text) or not -limit <= int(text) < limit:
        raise bad_value(config.name, text, f"Not a number of type {config.type.name}")
    return int(text)


def _parse_double(config: ConfigDef, text: str) -> float:
    if not _DOUBLE.fullmatch(text):
        raise bad_value(config.name, text, "Not a number of type DOUBLE")
    return float(text if text.endswith(("NaN", "Infinity")) else text.rstrip("fFdD"))


def _parse_list(_: ConfigDef, text: str) -> tuple[str, ...]:
    return tuple(re.split(r"\s*,\s*", text)) if text else ()


def _parse_text(_: ConfigDef, text: str) -> str:
    return text


_PARSERS: dict[ConfigType, Callable[[ConfigDef, str], Value]] = {
    ConfigType.BOOLEAN: _parse_boolean,
    ConfigType.STRING: _parse_text,
    ConfigType.INT: _parse_integer,
    ConfigType.SHORT: _parse_integer,
    ConfigType.LONG: _parse_integer,
    ConfigType.DOUBLE: _parse_double,
    ConfigType.LIST: _parse_list,
    ConfigType.CLASS: _parse_text,
    ConfigType.PASSWORD: _parse_text,
}


# What is allowed. Each is made once per config and called with the name and the parsed value.


def at_least(minimum: float) -> Validator:
    def check(name: str, value: Value) -> None:
        assert isinstance(value, int | float)
        if value < minimum:
            raise bad_value(name, format_value(value), f"Value must be at least {minimum}")

    return check


def between(minimum: float, maximum: float) -> Validator:
    at_least_minimum = at_least(minimum)

    def check(name: str, value: Value) -> None:
        at_least_minimum(name, value)
        assert isinstance(value, int | float)
        if value > maximum:
            raise bad_value(name, format_value(value), f"Value must be no more than {maximum}")

    return check


def one_of(*allowed: str) -> Validator:
    def check(name: str, value: Value) -> None:
        if value not in allowed:
            raise bad_value(name, value, f"String must be one of: {', '.join(allowed)}")

    return check


def one_of_ignoring_case(*allowed: str) -> Validator:
    def check(name: str, value: Value) -> None:
        if str(value).upper() not in (each.upper() for each in allowed):
            choices = ", ".join(allowed)
            raise bad_value(name, value, f"String must be one of (case insensitive): {choices}")

    return check


def non_empty(name: str, value: Value) -> None:
    if not value:
        raise bad_value(name, value, "String must be non-empty")


def gzip_level(name: str, value: Value) -> None:
    if value != -1 and value not in range(1, 10):
        raise bad_value(name, value, "Value must be between 1 and 9 or equal to -1")


_THROTTLED_REPLICA = re.compile(r"\d+:\d+")


def throttled_replicas(name: str, value: Value) -> None:
    assert isinstance(value, tuple)
    # Kafka's list of replicas may end in a comma.
    replicas = value[:-1] if len(value) > 1 and not value[-1] else value
    if value != ("*",) and not all(map(_THROTTLED_REPLICA.fullmatch, replicas)):
        allowed = "'*' or a list of replicas such as [partitionId]:[brokerId],[partitionId]:..."
        raise bad_value(name, f"[{', '.join(value)}]", f"Value must be {allowed}")


_DURATION = re.compile(r"by_duration:P(?=\w)(?:\d+D)?(?:T(?=\d)(?:\d+H)?(?:\d+M)?(?:[\d.]+S)?)?")


def share_offset_reset(name: str, value: Value) -> None:
    if value not in ("earliest", "latest") and not _DURATION.fullmatch(str(value)):
        allowed = "'earliest', 'latest' or 'by_duration:' and a duration such as P1DT2H"
        raise bad_value(name, value, f"Value must be {allowed}")


class list_of:  # noqa: N801 - it reads as the other validators do.
    """A list of distinct entries: any, or only those that are allowed. Doubles are dropped."""

    def __init__(self, *allowed: str, allow_empty: bool = True) -> None:
        self.allowed = allowed
        self.allow_empty = allow_empty

    def __call__(self, name: str, value: Value) -> None:
        assert isinstance(value, tuple)
        if not value and not self.allow_empty:
            choices = f"[{', '.join(self.allowed)}]" if self.allowed else "any non-empty value"
            message = f"Configuration '{name}' must not be empty. Valid values include: {choices}"
            raise ConfigError(message)
        if "" in value:
            raise ConfigError(f"Configuration '{name}' values must not be empty.")
        for each in value:
            if self.allowed and each not in self.allowed:
                choices = ", ".join(self.allowed)
                raise bad_value(name, each, f"String must be one of: {choices}")
