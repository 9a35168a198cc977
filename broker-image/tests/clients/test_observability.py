"""Probes, metrics and logs of a live node, read as Kubernetes, Prometheus and people read them."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from batches import batch_of
from bystander import TOPIC, Bystander, create_topic, fetch, fetch_values, produce
from frames import framed, request
from http_page import ANY_PORT, Metrics, get
from processes import Node, new_node
from raw_client import RawClient
from waiting import eventually

CREATE_PARTITIONS, FETCH, METADATA = 37, 1, 3
UNKNOWN_TOPIC_OR_PARTITION = 3
PARTITIONS = 1000
# How much a scrape loop may add to a produce and a fetch, on two cores that the tests share.
SCRAPED_SECONDS_MORE_MAX = 0.05
TOPICS = "kafka_server_brokertopicmetrics"
REQUESTS = "kafka_network_requestmetrics"
TEXT_LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (DEBUG|INFO|WARNING|ERROR) +\S+ .+")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with new_node("pykraft", tmp_path_factory.mktemp("seen"), ANY_PORT) as node:
        yield node.start()
        node.stop()


def test_a_running_node_is_alive_and_ready(node: Node) -> None:
    assert get(node, "/livez") == (200, "ok\n")
    assert get(node, "/readyz") == (200, "ok\n")
    assert get(node, "/nothing").status == 404


def test_the_counts_are_what_clients_did(node: Node) -> None:
    create_topic(node.port, "counted")
    records = batch_of(b"one", b"two", b"three").encode()
    before = Metrics(node)
    with RawClient(node.port) as client:
        for _ in range(10):
            assert produce(client, "counted", records)["error_code"] == 0
        for _ in range(5):
            assert fetch(client, "counted", 0)["high_watermark"] == 30
        assert produce(client, "absent", records)["error_code"] == UNKNOWN_TOPIC_OR_PARTITION
        after = Metrics(node)
    grew = {
        (name, tuple(labels.items())): after.value(name, **labels) - before.value(name, **labels)
        for name, labels in COUNTED
    }
    assert grew == {
        (name, tuple(labels.items())): count
        for (name, labels), count in zip(
            COUNTED, [10, 5, 30, 10 * len(records), 5 * 10 * len(records), 1], strict=True
        )
    }
    assert after.value("kafka_server_socket_server_metrics_connection_count") == 1


COUNTED: list[tuple[str, dict[str, str]]] = [
    (f"{TOPICS}_totalproducerequests_total", {"topic": "counted"}),
    (f"{TOPICS}_totalfetchrequests_total", {"topic": "counted"}),
    (f"{TOPICS}_messagesin_total", {"topic": "counted"}),
    (f"{TOPICS}_bytesin_total", {"topic": "counted"}),
    (f"{TOPICS}_bytesout_total", {"topic": "counted"}),
    (f"{REQUESTS}_errors_total", {"request": "Produce", "error": "UNKNOWN_TOPIC_OR_PARTITION"}),
]


def test_requests_are_counted_and_timed_per_api(node: Node) -> None:
    before = Metrics(node)
    with RawClient(node.port) as client:
        for _ in range(20):
            client.ask(METADATA, 9, topics=None)
    after = Metrics(node)
    for name in (f"{REQUESTS}_requests_total", f"{REQUESTS}_totaltimems_count"):
        assert after.value(name, request="Metadata") - before.value(name, request="Metadata") == 20
    p99 = after.value(f"{REQUESTS}_totaltimems", request="Metadata", quantile="0.99")
    assert 0 < p99 < 10_000
    spent = after.value(f"{REQUESTS}_totaltimems_sum", request="Metadata")
    assert spent > before.value(f"{REQUESTS}_totaltimems_sum", request="Metadata")


def test_a_log_shows_its_size_and_offsets(node: Node) -> None:
    create_topic(node.port, "sized")
    records = batch_of(b"one", b"two").encode()
    with RawClient(node.port) as client:
        produce(client, "sized", records)
    metrics = Metrics(node)
    seen = {
        name: metrics.value(f"kafka_log_log_{name}", topic="sized", partition="0")
        for name in ("size", "logstartoffset", "logendoffset", "numlogsegments")
    }
    assert seen == {
        "size": len(records),
        "logstartoffset": 0,
        "logendoffset": 2,
        "numlogsegments": 1,
    }


def test_a_long_poll_shows_in_the_purgatory_while_it_waits(node: Node) -> None:
    create_topic(node.port, "waited")

    def waiting() -> float:
        name = "kafka_server_delayedoperationpurgatory_purgatorysize"
        return Metrics(node).value(name, delayedOperation="Fetch")

    with RawClient(node.port) as poller, RawClient(node.port) as writer:
        poller.send(FETCH, 12, **fetch_values("waited", 0, 1 << 20, max_wait=60_000))
        eventually(lambda: waiting() == 1, within_s=10, because="the fetch waits")
        produce(writer, "waited", batch_of(b"at last").encode())
        (topic,) = poller.answer(FETCH, 12)["responses"]
        assert topic["partitions"][0]["high_watermark"] == 1
    assert waiting() == 0


def test_the_process_and_its_loop_are_shown(node: Node) -> None:
    metrics = Metrics(node)
    assert metrics.value("process_resident_memory_bytes") > 10 << 20
    assert metrics.value("process_open_fds") > 3
    assert metrics.value("kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert metrics.value("kafka_server_kafkaserver_brokerstate") == 3
    lag = eventually(
        lambda: Metrics(node).value("pykraft_event_loop_lag_max_seconds"),
        within_s=10,
        because="the lag of the loop was measured",
    )
    assert lag < 10


def test_a_series_comes_once(node: Node) -> None:
    """Prometheus refuses a page with the same series twice."""
    series = [(s.name, tuple(sorted(s.labels.items()))) for s in Metrics(node).samples]
    assert len(series) == len(set(series))


@contextmanager
def scraping(node: Node) -> Iterator[list[int]]:
    """Scrape after scrape, without a pause, until the block ends."""
    sizes: list[int] = []
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            sizes.append(len(get(node, "/metrics").text))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield sizes
    finally:
        stop.set()
        thread.join(30)


def test_a_scrape_loop_at_a_thousand_partitions_hardly_slows_a_producer(node: Node) -> None:
    create_topic(node.port, TOPIC)
    create_topic(node.port, "many")
    with RawClient(node.port) as client:
        more = [{"name": "many", "count": PARTITIONS, "assignments": None}]
        (result,) = client.ask(CREATE_PARTITIONS, 3, topics=more, timeout=30_000)["results"]
        assert result["error_code"] == 0, result
    with Bystander(node.port) as bystander:
        for _ in range(25):
            bystander.goes_on()
        alone, first = bystander.quantile(0.9), len(bystander.seconds)
        with scraping(node) as sizes:
            eventually(lambda: len(sizes) >= 3, within_s=30, because="three scrapes are done")
        scraped = bystander.quantile(0.9, since=first)
    print(f"p90 of a round: {alone * 1e3:.2f} ms alone, {scraped * 1e3:.2f} ms with {len(sizes)}")
    assert min(sizes) > PARTITIONS * 100
    assert scraped < alone + SCRAPED_SECONDS_MORE_MAX


@pytest.mark.parametrize("style", ["text", "json"])
def test_the_log_has_one_line_per_event(tmp_path: Path, style: str) -> None:
    with new_node("pykraft", tmp_path, {"pykraft.log.format": style}) as node:
        node.start()
        with RawClient(node.port) as client:
            # A client id with line breaks, in a request that cannot be read.
            client.send_bytes(
                framed(request(METADATA, 1).data.replace(b"forger", b"\n\r\x00\x1b{}"))
            )
            client.read_frame()
            client.send_bytes(framed(request(METADATA, 1).data[:-1]))
            assert client.is_closed_by_peer()
        node.stop()
        lines = [line for line in node.log.read_text().split("\n") if line]
    events = [line for line in lines if not line.startswith("ready: ")]
    assert len(events) >= 4
    for line in events:
        if style == "json":
            event = json.loads(line)
            assert event.keys() >= {"time", "level", "logger", "message"}
        else:
            assert TEXT_LINE.fullmatch(line), line
    assert sum("closing the connection" in line for line in events) == 1
