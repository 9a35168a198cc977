"""Declared topics against those that exist: what to do about the difference, and doing it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pykraft.local.admin import Admin
from pykraft.local.spec import SpecError, TopicSpec


@dataclass(frozen=True, slots=True)
class ObservedTopic:
    partitions: int
    # Only what was set for the topic itself.
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Create:
    topic: TopicSpec

    def __str__(self) -> str:
        return f"topic {self.topic.name}: created with {self.topic.partitions} partitions"

    def perform(self, admin: Admin) -> None:
        topic = self.topic
        admin.create_topic(topic.name, topic.partitions, topic.replicas, topic.config)


@dataclass(frozen=True, slots=True)
class AddPartitions:
    name: str
    before: int
    total: int

    def __str__(self) -> str:
        return f"topic {self.name}: {self.before} partitions became {self.total}"

    def perform(self, admin: Admin) -> None:
        admin.create_partitions(self.name, self.total)


@dataclass(frozen=True, slots=True)
class ChangeConfig:
    name: str
    # None takes the topic's own value away.
    changes: Mapping[str, str | None]

    def __str__(self) -> str:
        shown = (f"{k} unset" if v is None else f"{k}={v}" for k, v in self.changes.items())
        return f"topic {self.name}: {', '.join(shown)}"

    def perform(self, admin: Admin) -> None:
        admin.alter_topic_config(self.name, self.changes)


Action = Create | AddPartitions | ChangeConfig


def plan(declared: Sequence[TopicSpec], observed: Mapping[str, ObservedTopic]) -> list[Action]:
    """What makes the observed topics as declared. Topics that nobody declared are left alone."""
    return [action for topic in declared for action in _plan_one(topic, observed.get(topic.name))]


def _plan_one(topic: TopicSpec, observed: ObservedTopic | None) -> list[Action]:
    if observed is None:
        return [Create(topic)]
    if observed.partitions > topic.partitions:
        raise SpecError(
            f"topic {topic.name}: spec.partitions={topic.partitions}: it has "
            f"{observed.partitions}, and partitions cannot be taken away"
        )
    actions: list[Action] = []
    if observed.partitions < topic.partitions:
        actions.append(AddPartitions(topic.name, observed.partitions, topic.partitions))
    changes: dict[str, str | None] = {
        key: text for key, text in topic.config.items() if observed.config.get(key) != text
    }
    changes |= dict.fromkeys(sorted(observed.config.keys() - topic.config.keys()))
    if changes:
        actions.append(ChangeConfig(topic.name, changes))
    return actions


def reconcile(admin: Admin, declared: Sequence[TopicSpec]) -> list[Action]:
    """Make the topics as declared; what was done. A second time does nothing."""
    observed = {}
    for topic in declared:
        partitions = admin.partitions_of(topic.name)
        if partitions is not None:
            observed[topic.name] = ObservedTopic(partitions, admin.topic_config(topic.name))
    actions = plan(declared, observed)
    for action in actions:
        action.perform(admin)
    return actions
