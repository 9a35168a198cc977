"""The KafkaCluster and Topic YAML, read into values; what is wrong is said field by field."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pykraft.configs import TOPIC_CONFIGS, format_value, parse, validate_topic_configs
from pykraft.protocol.errors import KafkaError

API_VERSION = "pykraft.io/v1alpha1"
# Fields that only the Kubernetes operator has a use for.
KUBERNETES_FIELDS = frozenset(("image", "listeners", "rack", "resources", "storage", "template"))
# More than any machine can hold; it catches a typing error before a broker works on it for hours.
PARTITIONS_MAX = 100_000

_RESOURCE_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class SpecError(Exception):
    """One line: the resource, the field, its value and what is allowed."""


@dataclass(frozen=True, slots=True)
class TopicSpec:
    name: str
    partitions: int = 1
    replicas: int = 1
    # Texts as DescribeConfigs prints them, so that they can be compared with what is there.
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    name: str
    brokers: int = 1
    # 0 means that the broker is its own controller.
    controllers: int = 0
    config: Mapping[str, str] = field(default_factory=dict)
    topics: tuple[TopicSpec, ...] = ()
    # Fields that were in the file and have no effect on this machine.
    ignored: tuple[str, ...] = ()


def parse_cluster(text: str) -> ClusterSpec:
    """The one KafkaCluster in `text` with all Topics of it."""
    resources = [_Resource(document) for document in _documents(text)]
    clusters = [each for each in resources if each.kind == "KafkaCluster"]
    if len(clusters) != 1:
        raise SpecError(f"there must be one KafkaCluster, and there are {len(clusters)}")
    cluster = _cluster(clusters[0])
    topics: dict[str, TopicSpec] = {}
    for resource in resources:
        if resource.kind == "Topic":
            topic = _topic(resource, cluster)
            if topic.name in topics:
                raise resource.wrong("spec.topicName", topic.name, "another Topic has this name")
            topics[topic.name] = topic
    ignored = tuple(line for resource in resources for line in resource.ignored)
    return replace(cluster, topics=tuple(topics.values()), ignored=ignored)


def _documents(text: str) -> list[Any]:
    import yaml

    try:
        return [document for document in yaml.safe_load_all(text) if document is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        what = getattr(error, "problem", None) or " ".join(str(error).split())
        raise SpecError(f"{where}not YAML: {what}") from None


class _Resource:
    """One document of the file, and the words to complain about it."""

    def __init__(self, document: Any) -> None:
        self.label = "a document"
        self.ignored: list[str] = []
        body = self.mapping(document, "the document")
        self.kind = body.get("kind")
        if body.get("apiVersion") != API_VERSION:
            raise self.wrong("apiVersion", body.get("apiVersion"), f"must be {API_VERSION}")
        if self.kind not in ("KafkaCluster", "Topic"):
            raise self.wrong("kind", self.kind, "must be KafkaCluster or Topic")
        metadata = self.mapping(body.get("metadata"), "metadata")
        name = metadata.get("name")
        if not isinstance(name, str) or not _RESOURCE_NAME.fullmatch(name):
            allowed = "must be lower-case letters, digits, '-' and '.'"
            raise self.wrong("metadata.name", name, allowed)
        self.name: str = name
        self.label = f"{self.kind} {self.name}"
        self.check_fields(body, "", {"apiVersion", "kind", "metadata", "spec", "status"})
        self.spec = self.mapping(body.get("spec"), "spec")

    def wrong(self, path: str, value: object, allowed: str) -> SpecError:
        shown = path if value is None else f"{path}={value}"
        return SpecError(f"{self.label}: {shown}: {allowed}")

    def mapping(self, value: Any, path: str) -> Mapping[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.wrong(path, value, "must be a mapping of fields")
        return value

    def check_fields(self, mapping: Mapping[str, Any], path: str, known: set[str]) -> None:
        for name in mapping:
            if name in known:
                continue
            full = f"{path}.{name}".lstrip(".")
            if name not in KUBERNETES_FIELDS:
                raise self.wrong(full, None, f"unknown field; known are {', '.join(sorted(known))}")
            self.ignored.append(f"{self.label}: {full} has no effect on this machine")

    def number(self, value: Any, path: str, default: int, least: int, most: int) -> int:
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.wrong(path, value, f"must be a whole number from {least} to {most}")
        return value

    def texts(self, value: Any, path: str) -> dict[str, str]:
        """A mapping of config keys to texts, from whatever YAML makes of a number or a yes."""
        texts = {}
        for key, each in self.mapping(value, path).items():
            if not isinstance(each, bool | int | float | str):
                allowed = "must be a text, a number, true or false"
                raise self.wrong(f"{path}.{key}", each, allowed)
            texts[str(key)] = format_value(each) or ""
        return texts


def _cluster(resource: _Resource) -> ClusterSpec:
    spec = resource.spec
    resource.check_fields(spec, "spec", {"brokers", "controllers", "config"})
    counts = {}
    for role, default, least in (("brokers", 1, 1), ("controllers", 0, 0)):
        path = f"spec.{role}"
        part = resource.mapping(spec.get(role), path)
        resource.check_fields(part, path, {"replicas"})
        replicas = part.get("replicas")
        counts[role] = resource.number(replicas, f"{path}.replicas", default, least, 1000)
    return ClusterSpec(
        name=resource.name,
        brokers=counts["brokers"],
        controllers=counts["controllers"],
        config=resource.texts(spec.get("config"), "spec.config"),
    )


def _topic(resource: _Resource, cluster: ClusterSpec) -> TopicSpec:
    spec = resource.spec
    known = {"clusterRef", "topicName", "partitions", "replicas", "config"}
    resource.check_fields(spec, "spec", known)
    reference = spec.get("clusterRef")
    referred = reference.get("name") if isinstance(reference, dict) else reference
    if referred != cluster.name:
        allowed = f"must be {cluster.name}, the KafkaCluster of this file"
        raise resource.wrong("spec.clusterRef", referred, allowed)
    name = spec.get("topicName", resource.name)
    if not isinstance(name, str) or not _TOPIC_NAME.fullmatch(name) or name in (".", ".."):
        allowed = "must be up to 249 letters, digits, '.', '_' and '-'"
        raise resource.wrong("spec.topicName", name, allowed)
    partitions = resource.number(spec.get("partitions"), "spec.partitions", 1, 1, PARTITIONS_MAX)
    replicas = resource.number(spec.get("replicas"), "spec.replicas", 1, 1, 1000)
    config = _topic_config(resource, resource.texts(spec.get("config"), "spec.config"))
    return TopicSpec(name, partitions, replicas, config)


def _topic_config(resource: _Resource, texts: Mapping[str, str]) -> dict[str, str]:
    try:
        validate_topic_configs(texts)
    except KafkaError as error:
        raise resource.wrong("spec.config", None, str(error.message)) from None
    return {key: format_value(parse(TOPIC_CONFIGS[key], text)) or "" for key, text in texts.items()}
