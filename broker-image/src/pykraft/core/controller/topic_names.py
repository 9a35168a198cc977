"""Which names a topic may have."""

import re
from collections.abc import Iterable

from pykraft.protocol.errors import ErrorCode, KafkaError

NAME_LENGTH_MAX = 249
# The metadata log is no topic of the cluster, though it looks like one on disk.
CLUSTER_METADATA = "__cluster_metadata"

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raises INVALID_TOPIC_EXCEPTION with the reason."""
    if not name:
        raise _invalid("the empty string is not allowed")
    if name in (".", ".."):
        raise _invalid(f"'{name}' is not allowed")
    if len(name) > NAME_LENGTH_MAX:
        raise _invalid(
            f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
        )
    if not _LEGAL.fullmatch(name):
        raise _invalid(
            f"'{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {why}")


def may_collide(name: str) -> bool:
    return "." in name or "_" in name


def collisions(names: Iterable[str]) -> dict[str, list[str]]:
    """Names that become one in a metric, where a dot and an underscore are the same."""
    groups: dict[str, list[str]] = {}
    for name in names:
        if may_collide(name):
            groups.setdefault(metric_name(name), []).append(name)
    return groups


def metric_name(name: str) -> str:
    return name.replace(".", "_")
