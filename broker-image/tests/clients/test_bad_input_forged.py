"""Forged numbers in requests of every API that a live node serves: closed or answered, never more.

pykraft's alone: it is about its memory and its log.
"""

import json
import socket
from collections.abc import Iterator

import pytest
from bystander import TOPIC, Bystander, create_topic
from frames import SERVED, Frame, extremes, framed, request
from frames import TOPIC as FORGED
from processes import Node, new_node, resident_bytes
from raw_client import RawClient

MIB = 1024 * 1024
GROWS_MAX = 48 * MIB
CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS = 19, 20, 37
POLICY_VIOLATION, INVALID_PARTITIONS = 44, 37


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    settings = {"pykraft.log.format": "json"}
    with new_node("pykraft", tmp_path_factory.mktemp("forged"), settings) as node:
        node.start()
        create_topic(node.port, TOPIC)
        yield node
        node.stop()


@pytest.fixture(scope="module")
def topic_id(node: Node) -> bytes:
    return create_topic(node.port, FORGED)


@pytest.fixture(scope="module", autouse=True)
def bystander(node: Node) -> Iterator[Bystander]:
    with Bystander(node.port) as bystander:
        yield bystander


def versions_to_forge() -> list[tuple[int, int]]:
    """The oldest and the newest of each API: one classic and one flexible, where it has both."""
    return sorted(
        {(key, version) for key, all_ in SERVED.items() for version in (all_[0], all_[-1])}
    )


def end_of(node: Node, data: bytes) -> bytes:
    """Send, close our side, and return all that comes until the node closes."""
    with socket.create_connection(("127.0.0.1", node.port), 20) as one:
        one.sendall(framed(data))
        one.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while chunk := one.recv(1 << 16):
                answer += chunk
        except ConnectionResetError:
            pass
        return answer


@pytest.mark.parametrize(("api_key", "version"), versions_to_forge())
def test_a_forged_number_gets_an_answer_or_a_closed_connection(
    node: Node, topic_id: bytes, bystander: Bystander, api_key: int, version: int
) -> None:
    frame = forgeable(api_key, version, topic_id)
    before = resident_bytes(node.pid())
    for mark in frame.marks:
        for number in extremes(mark) if mark.is_size else extremes(mark)[::3]:
            end_of(node, frame.forged(mark, number))
    assert resident_bytes(node.pid()) - before < GROWS_MAX
    bystander.goes_on()


def forgeable(api_key: int, version: int, topic_id: bytes) -> Frame:
    frame = request(api_key, version)
    if api_key == DELETE_TOPICS:
        # Another name: the topic is needed for the other requests.
        return Frame(api_key, version, frame.data.replace(b"forged", b"doomed"), frame.marks)
    return frame.with_topic_id(topic_id)


def test_no_request_made_the_node_stumble(node: Node) -> None:
    """After all of the above: what it cannot read it refuses, and that is never an exception."""
    stumbled = [line for line in node.log_since_start().splitlines() if "traceback" in line]
    assert stumbled == []


@pytest.mark.parametrize("count", [10**6, 2**31 - 1])
def test_a_topic_of_a_million_partitions_in_forty_bytes_is_refused(node: Node, count: int) -> None:
    before = resident_bytes(node.pid())
    with RawClient(node.port) as client:
        wanted = {"name": "huge", "num_partitions": count, "replication_factor": 1}
        topics = [wanted | {"assignments": [], "configs": []}]
        (topic,) = client.ask(CREATE_TOPICS, 7, topics=topics)["topics"]
        assert topic["error_code"] in (POLICY_VIOLATION, INVALID_PARTITIONS), topic
        more = [{"name": FORGED, "count": count, "assignments": None}]
        (grown,) = client.ask(CREATE_PARTITIONS, 3, topics=more, timeout=1000)["results"]
        assert grown["error_code"] in (POLICY_VIOLATION, INVALID_PARTITIONS), grown
    assert resident_bytes(node.pid()) - before < GROWS_MAX


# What is sent, and what one line of the log must say of it.
REFUSED: dict[str, tuple[bytes, dict[str, object]]] = {
    "a body cut short": (
        framed(request(3, 9).data[:-3]),
        {"client_id": "forger", "api": "Metadata", "version": 9, "correlation_id": 0x0C0FFEE0},
    ),
    "an unknown version": (
        framed(b"\x00\x03\x00\x63" + request(3, 9).data[4:]),
        {"client_id": "forger", "api": "Metadata", "version": 99, "correlation_id": 0x0C0FFEE0},
    ),
    "an unknown API": (
        framed(b"\x03\xe7\x00\x00" + request(3, 9).data[4:]),
        {"client_id": "forger", "version": 0, "correlation_id": 0x0C0FFEE0},
    ),
    "a bad batch without acks": (
        framed(request(0, 9, acks=0, records=b"bad").data),
        {"client_id": "forger", "api": "Produce", "version": 9, "correlation_id": 0x0C0FFEE0},
    ),
    "a frame too long": (b"\x7f\xff\xff\xff", {}),
    "a negative size": (b"\xff\xff\xff\xff", {}),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_refusal_leaves_one_line_that_says_whose_and_what(
    node: Node, topic_id: bytes, what: str
) -> None:
    del topic_id
    sent, expected = REFUSED[what]
    with socket.create_connection(("127.0.0.1", node.port), 20) as one:
        host, port = one.getsockname()
        one.sendall(sent)
        assert one.recv(1) == b""
    lines = [json.loads(line) for line in node.log_since_start().splitlines() if line[:1] == "{"]
    mine = [line for line in lines if line.get("peer") == f"{host}:{port}"]
    assert len(mine) == 1, mine
    assert {key: mine[0].get(key) for key in expected} == expected
    assert mine[0]["level"] in ("WARNING", "INFO")
