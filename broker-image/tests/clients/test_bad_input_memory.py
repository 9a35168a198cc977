"""Clients that want the node's memory or its time: both have bounds, and others go on.

pykraft's alone: Apache Kafka allocates a frame as soon as its size is announced.
"""

import gzip
import resource
import select
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

import crc32c
import pytest
import zstandard
from batches import Batch, PlainRecord, batch_of
from bystander import TOPIC, Bystander, create_topic, fetch_values, produce
from frames import framed, request, uvarint
from http_page import ANY_PORT, Metrics
from processes import Node, new_node, resident_bytes
from raw_client import RawClient
from waiting import eventually

MIB = 1024 * 1024
REQUEST_BYTES_MAX = 100 * MIB
IDLE_CONNECTIONS = 10_000
# Python objects and a socket's bookkeeping; the kernel's buffers are not in RSS.
IDLE_BYTES_MAX = 4096
BIG_TOPIC, BIG_BATCHES = "big", 24
# One round of the bystander (a produce with acks=all and a fetch) on a machine with two busy cores.
ROUND_SECONDS_MAX = 1.0
IDLE_ROUND_SECONDS_MAX = 0.1
FETCH, METADATA = 1, 3


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(hard, 2 * IDLE_CONNECTIONS)
    with new_node("pykraft", tmp_path_factory.mktemp("memory"), ANY_PORT) as node:
        # The node has to raise its own limit: many shells give a process 1024 files.
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, wanted))
        try:
            node.start()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
        create_topic(node.port, TOPIC)
        create_topic(node.port, BIG_TOPIC, max_message_bytes=str(4 * MIB))
        with RawClient(node.port) as client:
            for _ in range(BIG_BATCHES):
                answer = produce(client, BIG_TOPIC, batch_of(bytes(MIB)).encode())
                assert answer["error_code"] == 0, answer
        # The first scrape loads the HTTP server; its memory is not what is measured here.
        Metrics(node)
        yield node
        node.stop()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, wanted))


@contextmanager
def bystander_and_memory(node: Node, grows_max: int) -> Iterator[Bystander]:
    """What happens inside may cost this much memory at its worst, and must disturb nobody."""
    with Bystander(node.port) as bystander:
        before = resident_bytes(node.pid())
        forget_peak(node)
        yield bystander
        bystander.goes_on()
        grown = peak_resident_bytes(node) - before
        print(f"grew by {grown / MIB:.1f} MiB; slowest round {bystander.quantile(1.0):.3f} s")
        assert grown <= grows_max


def forget_peak(node: Node) -> None:
    Path(f"/proc/{node.pid()}/clear_refs").write_text("5")


def peak_resident_bytes(node: Node) -> int:
    status = Path(f"/proc/{node.pid()}/status").read_text()
    (peak,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(peak.split()[1]) * 1024


def connect(node: Node) -> socket.socket:
    return socket.create_connection(("127.0.0.1", node.port), 20)


def wait_until_connected(node: Node, count: int) -> None:
    """Until the node has accepted this many and, with one loop, read what they sent."""
    name = "kafka_server_socket_server_metrics_connection_count"
    eventually(
        lambda: Metrics(node).value(name) >= count,
        within_s=30,
        because=f"{count} connections are open",
    )


def wait_until_gone(node: Node) -> None:
    name = "kafka_server_socket_server_metrics_connection_count"
    eventually(
        lambda: Metrics(node).value(name) <= 1, within_s=30, because="all connections are closed"
    )


def test_frames_that_are_announced_and_never_sent_take_no_memory(node: Node) -> None:
    count = 200
    with ExitStack() as stack, bystander_and_memory(node, grows_max=16 * MIB):
        for _ in range(count):
            stack.enter_context(connect(node)).sendall(struct.pack(">i", REQUEST_BYTES_MAX))
        wait_until_connected(node, count)
    wait_until_gone(node)


def test_frames_that_are_begun_take_memory_only_for_what_has_come(node: Node) -> None:
    count = 2000
    with ExitStack() as stack, bystander_and_memory(node, grows_max=count * 16 * 1024):
        for _ in range(count):
            begun = struct.pack(">i", REQUEST_BYTES_MAX) + request(METADATA, 1).data
            stack.enter_context(connect(node)).sendall(begun)
        wait_until_connected(node, count)
    wait_until_gone(node)


def test_a_large_frame_takes_twice_its_size_at_most_and_gives_it_back(node: Node) -> None:
    size = 64 * MIB
    before = resident_bytes(node.pid())
    with bystander_and_memory(node, grows_max=2 * size), RawClient(node.port) as client:
        start = request(METADATA, 1).data
        client.send_frame(start + bytes(size - len(start)))
        assert client.read_frame()
    assert resident_bytes(node.pid()) - before <= 8 * MIB


def test_ten_thousand_idle_connections_cost_little_and_slow_nobody(node: Node) -> None:
    grows_max = IDLE_CONNECTIONS * IDLE_BYTES_MAX
    with ExitStack() as stack, bystander_and_memory(node, grows_max) as bystander:
        for _ in range(IDLE_CONNECTIONS):
            stack.enter_context(connect(node))
        wait_until_connected(node, IDLE_CONNECTIONS)
        while_idle = len(bystander.seconds)
        for _ in range(10):
            bystander.goes_on()
        print(f"p50 with all of them open: {bystander.quantile(0.5, while_idle) * 1e3:.2f} ms")
        assert bystander.quantile(0.5, while_idle) < IDLE_ROUND_SECONDS_MAX
    wait_until_gone(node)


def test_clients_that_never_read_are_owed_one_answer_each(node: Node) -> None:
    count = 50
    fetches = b"".join(framed(_fetch_of_everything(number)) for number in range(100))
    with ExitStack() as stack, bystander_and_memory(node, grows_max=32 * MIB):
        for _ in range(count):
            one = stack.enter_context(connect(node))
            one.setblocking(False)
            one.send(fetches)
        wait_until_connected(node, count)
    wait_until_gone(node)


def _fetch_of_everything(number: int) -> bytes:
    client = object.__new__(RawClient)
    client._correlation_id = number
    return client._encode(FETCH, 12, fetch_values(BIG_TOPIC, 0, 50 * MIB))


def test_clients_that_never_read_small_answers_fill_no_memory(node: Node) -> None:
    count = 20
    requests = framed(request(METADATA, 1).data) * 50_000
    with ExitStack() as stack, bystander_and_memory(node, grows_max=32 * MIB) as bystander:
        sockets = [stack.enter_context(connect(node)) for _ in range(count)]
        _send_until_full(sockets, requests)
        bystander.goes_on()
    wait_until_gone(node)


def _send_until_full(sockets: list[socket.socket], data: bytes) -> None:
    """Push until the node takes no more from any of them for a while, or all is sent."""
    left = {one: memoryview(data) for one in sockets}
    for one in sockets:
        one.setblocking(False)
    while left:
        _, writable, _ = select.select([], list(left), [], 0.3)
        if not writable:
            return
        for one in writable:
            sent = one.send(left[one][:65536])
            left[one] = left[one][sent:]
            if not left[one]:
                del left[one]


def test_long_polls_whose_clients_are_gone_leave_the_purgatory(node: Node) -> None:
    count = 300
    name = "kafka_server_delayedoperationpurgatory_purgatorysize"

    def waiting() -> float:
        return Metrics(node).value(name, delayedOperation="Fetch")

    with ExitStack() as stack, bystander_and_memory(node, grows_max=16 * MIB):
        for _ in range(count):
            client = stack.enter_context(RawClient(node.port))
            client.send(FETCH, 12, **fetch_values(BIG_TOPIC, BIG_BATCHES, MIB, max_wait=2**31 - 1))
        eventually(lambda: waiting() == count, within_s=20, because="all of them wait")
        stack.pop_all().close()
        eventually(lambda: waiting() == 0, within_s=20, because="nobody waits any more")


def test_a_hundred_thousand_topics_in_one_request_are_answered_in_bounded_memory(
    node: Node,
) -> None:
    """Somebody may really have them; the loop is held up for as long as the answer takes."""
    count = 100_000
    names = b"".join(b"\x00\x06%06x" % number for number in range(count))
    topics = struct.pack(">i", count) + names
    head = struct.pack(">hhih", METADATA, 4, 7, -1)
    with bystander_and_memory(node, grows_max=128 * MIB) as bystander:
        with RawClient(node.port) as client:
            client.send_frame(head + topics + b"\x00")
            assert len(client.read_frame()) > count
        assert bystander.quantile(1.0) < 10 * ROUND_SECONDS_MAX


# Where a topic has its own codec, and where every record needs a key, the node unpacks batches.
UNPACKED: list[dict[str, str]] = [{"compression_type": "lz4"}, {"cleanup_policy": "compact"}]


@pytest.mark.parametrize("configs", UNPACKED, ids=lambda configs: next(iter(configs)))
@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_a_small_batch_that_unpacks_to_very_much_is_refused(
    node: Node, codec: str, configs: dict[str, str]
) -> None:
    topic = f"unpacks-{codec}-{next(iter(configs))}"
    create_topic(node.port, topic, **configs)
    fine = Batch([PlainRecord(b"key", b"value")]).encode()
    with bystander_and_memory(node, grows_max=320 * MIB), RawClient(node.port) as client:
        assert produce(client, topic, _bomb(codec))["error_code"] != 0
        assert produce(client, topic, fine)["error_code"] == 0


@cache
def _bomb(codec: str) -> bytes:
    """A batch of less than a megabyte whose one record claims to be a gigabyte.

    What it unpacks to is more than the node unpacks, and less than would slow the test.
    """
    start = uvarint(2 * (1024 * MIB + 20)) + bytes(3) + b"\x01" + uvarint(2 * 1024 * MIB)
    records = start + bytes(256 * MIB)
    if codec == "gzip":
        attributes, packed = 1, gzip.compress(records, compresslevel=6)
    else:
        attributes, packed = 4, zstandard.compress(records)
    assert len(packed) < 1_000_000, "it would be refused for its size"
    header = batch_of(b"x").encode()[:61]
    checked = struct.pack(">h", attributes) + header[23:] + packed
    size_to_crc = struct.pack(">iibI", len(checked) + 9, -1, 2, crc32c.crc32c(checked))
    return header[:8] + size_to_crc + checked
