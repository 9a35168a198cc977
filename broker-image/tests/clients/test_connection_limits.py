"""Connections that are too many or too quiet are closed; others stay. Either broker (TARGET)."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from bystander import TOPIC, Bystander, create_topic
from frames import framed, request
from processes import TARGET, Node, new_node
from raw_client import ConnectionClosedError, RawClient
from waiting import eventually

IDLE_MS, PER_IP = 1500, 20
API_VERSIONS, METADATA = 18, 3


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder: Path = tmp_path_factory.mktemp("limits")
    limits = {"connections.max.idle.ms": str(IDLE_MS), "max.connections.per.ip": str(PER_IP)}
    with new_node(TARGET, folder, limits) as node:
        node.start()
        create_topic(node.port, TOPIC)
        yield node
        node.stop()


def test_silent_and_half_open_connections_are_closed_in_the_end(node: Node) -> None:
    frame = framed(request(METADATA, 1).data)
    with ExitStack() as stack, Bystander(node.port) as bystander:
        silent, begun, served = (stack.enter_context(RawClient(node.port)) for _ in range(3))
        begun.send_bytes(frame[:-1])
        served.send_bytes(frame)
        assert served.read_frame()
        assert silent.is_closed_by_peer()
        assert begun.is_closed_by_peer()
        assert served.is_closed_by_peer()
        bystander.goes_on()


def test_one_connection_too_many_is_closed_and_the_others_stay(node: Node) -> None:
    with ExitStack() as stack:
        open_ones = [stack.enter_context(RawClient(node.port)) for _ in range(PER_IP)]
        for client in open_ones:
            assert client.ask(API_VERSIONS, 0)["error_code"] == 0
        with RawClient(node.port) as refused:
            assert refused.is_closed_by_peer()
        assert open_ones[0].ask(API_VERSIONS, 0)["error_code"] == 0
        # Whoever leaves makes room.
        open_ones.pop().close()
        eventually(lambda: is_admitted(node), within_s=10, because="there is room for one")


def is_admitted(node: Node) -> bool:
    with RawClient(node.port) as client:
        try:
            return client.ask(API_VERSIONS, 0)["error_code"] == 0
        except (ConnectionClosedError, BrokenPipeError):
            return False
