"""A broker for the whole run, of the kind that TARGET names, so that both are held to one answer.

TARGET=kafka    Apache Kafka 4.3.1
TARGET=pykraft  ours, the default
"""

import itertools
from collections.abc import Callable, Iterator, Mapping

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from differential import Both
from node_reports import nothing_left_running, pytest_runtest_makereport  # noqa: F401
from processes import KINDS, TARGET, Node, new_node

_numbers = itertools.count(1)
# Some records are of years ago, and retention would take them while a test looks at them.
NO_RETENTION = {
    "log.initial.task.delay.ms": "3600000",
    "log.retention.check.interval.ms": "3600000",
}

NewTopicNamed = Callable[..., str]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    assert TARGET in KINDS, f"TARGET must be one of {sorted(KINDS)}"
    with new_node(TARGET, tmp_path_factory.mktemp(TARGET), NO_RETENTION) as node:
        yield node.start()
        node.stop()


@pytest.fixture(scope="session")
def admin(broker: Node) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


@pytest.fixture(scope="session")
def new_topic(admin: AdminClient) -> NewTopicNamed:
    """Creates a topic under a name that no other test has."""

    def create(partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        name = f"topic-{next(_numbers)}"
        topic = NewTopic(name, partitions, 1, config=dict(configs or {}))
        admin.create_topics([topic])[name].result(30)
        return name

    return create


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """Apache Kafka and pykraft side by side, whatever TARGET says."""
    folder = tmp_path_factory.mktemp("both")
    with (
        new_node("kafka", folder / "kafka", NO_RETENTION) as kafka,
        new_node("pykraft", folder / "pykraft", NO_RETENTION) as ours,
    ):
        yield Both(kafka.start(), ours.start())
        kafka.stop()
        ours.stop()
