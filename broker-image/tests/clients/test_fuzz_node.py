"""Damaged requests against a live node: it lives, stays small, never stumbles, and serves others.

    FUZZ_SECONDS=600 FUZZ_SEED=7 pytest tests/clients/test_fuzz_node.py

The seed is printed; a failure shows the last requests in hex, for tests/wire/corpus/found.hex.
"""

import os
import random
import socket
import struct
import time
from collections import deque
from collections.abc import Iterator

import corpus
import pytest
from bystander import TOPIC, Bystander, create_topic
from frames import TOPIC as FORGED
from frames import TOPIC_ID, framed
from processes import Node, new_node, resident_bytes

SECONDS = float(os.environ.get("FUZZ_SECONDS", "10"))
SEED = int(os.environ.get("FUZZ_SEED", random.SystemRandom().randrange(2**32)))
MIB = 1024 * 1024
GROWS_MAX = 64 * MIB
DELETE_TOPICS = 20
# Between two looks at the log and the memory.
ROUND = 500
LAST_SHOWN = 20


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with new_node("pykraft", tmp_path_factory.mktemp("fuzz")) as node:
        node.start()
        create_topic(node.port, TOPIC)
        yield node
        node.stop()


@pytest.fixture(scope="module")
def requests(node: Node) -> list[bytes]:
    topic_id = create_topic(node.port, FORGED)
    return [_aimed(data, topic_id) for data in corpus.load()]


def _aimed(data: bytes, topic_id: bytes) -> bytes:
    """At the topic that exists, except for requests that would delete it."""
    if data[:2] == struct.pack(">h", DELETE_TOPICS):
        return data.replace(FORGED.encode(), b"doomed")
    return data.replace(TOPIC_ID, topic_id)


def exchange(node: Node, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", node.port), 20) as one:
        try:
            one.sendall(data)
            one.shutdown(socket.SHUT_WR)
            while one.recv(1 << 16):
                pass
        except (ConnectionResetError, BrokenPipeError):
            return  # It did not even want to hear the rest.


@pytest.mark.timeout(SECONDS + 60)
def test_a_node_survives_damaged_requests(node: Node, requests: list[bytes]) -> None:
    print(f"FUZZ_SEED={SEED}")
    chance = random.Random(SEED)
    last: deque[bytes] = deque(maxlen=ROUND)
    ends = time.monotonic() + SECONDS
    count = 0
    with Bystander(node.port) as bystander:
        before = resident_bytes(node.pid())
        while time.monotonic() < ends:
            for _ in range(ROUND):
                data = _next(requests, chance)
                last.append(data)
                exchange(node, data)
            count += ROUND
            bystander.goes_on()
            assert stumbles(node) == [], shown(last)
            assert resident_bytes(node.pid()) - before < GROWS_MAX, shown(last)
    print(f"{count} requests")


def _next(requests: list[bytes], chance: random.Random) -> bytes:
    """Mostly one damaged request; at times a valid one before it, at times a wrong size."""
    data = framed(corpus.damaged(chance.choice(requests), chance))
    if chance.random() < 0.2:
        data = framed(chance.choice(requests)) + data
    if chance.random() < 0.1:
        data = corpus.damaged(data, chance)
    return data


def stumbles(node: Node) -> list[str]:
    log = node.log_since_start()
    return [line for line in log.splitlines() if "traceback" in line.lower()]


def shown(last: deque[bytes]) -> str:
    return f"FUZZ_SEED={SEED}; the last were\n" + "\n".join(
        data.hex() for data in list(last)[-LAST_SHOWN:]
    )
