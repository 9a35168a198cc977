"""Topics created because somebody asked for them: once, and without filling the log."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from asked_broker import AskedBroker

from pykraft.core.controller.controller import Controller
from pykraft.core.controller.outcome import Outcome
from pykraft.handlers import auto_topics
from pykraft.handlers.auto_topics import create_topics
from pykraft.protocol.errors import ErrorCode

Done = Callable[[Mapping[str, Any]], None]


class SlowController:
    """Answers when a test says so."""

    def __init__(self, node: AskedBroker) -> None:
        self.node = node
        self.asked: list[tuple[list[str], Done]] = []
        node.broker.controller = self

    def submit(self, operation: Callable[[Controller], Outcome], done: Done) -> None:
        reply = operation(self.node.controller).reply
        self.asked.append(([topic["name"] for topic in reply["topics"]], done))

    def describe_quorum(self) -> Mapping[str, Any]:
        return {}

    def answer(self, *codes: ErrorCode) -> None:
        names, done = self.asked.pop(0)
        done(
            {
                "topics": [
                    {"name": name, "error_code": code, "error_message": "because"}
                    for name, code in zip(names, codes, strict=True)
                ]
            }
        )


def test_what_is_on_its_way_is_not_asked_for_again(node: AskedBroker) -> None:
    controller = SlowController(node)
    create_topics(node.broker, ["a", "b"])
    create_topics(node.broker, ["b", "c", "c"])
    create_topics(node.broker, ["a", "c"])
    assert [names for names, _ in controller.asked] == [["a", "b"], ["c"]]
    controller.answer(ErrorCode.NONE, ErrorCode.INVALID_REPLICATION_FACTOR)
    create_topics(node.broker, ["b"])
    assert [names for names, _ in controller.asked] == [["c"], ["b"]]


def test_no_more_are_on_their_way_than_the_bound(
    node: AskedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto_topics, "BEING_CREATED_MAX", 2)
    controller = SlowController(node)
    create_topics(node.broker, ["a", "b", "c"])
    create_topics(node.broker, ["d"])
    assert [names for names, _ in controller.asked] == [["a", "b"]]


def test_a_controller_that_refuses_may_be_asked_again(node: AskedBroker) -> None:
    node.is_active = False
    create_topics(node.broker, ["a"])
    node.is_active = True
    create_topics(node.broker, ["a"])
    assert "a" in node.broker.image.topics


def test_failures_are_one_line_for_each_request(
    node: AskedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    controller = SlowController(node)
    create_topics(node.broker, ["a", "b", "c"])
    with caplog.at_level(logging.WARNING, "pykraft.auto_topics"):
        refused = ErrorCode.INVALID_REPLICATION_FACTOR
        controller.answer(ErrorCode.TOPIC_ALREADY_EXISTS, refused, refused)
    assert caplog.messages == ["2 of 3 topics were not created, the first is b: because"]
