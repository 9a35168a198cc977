"""What is measured: each row puts one load on one broker and returns its figures."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, product

import load
import real_client
from brokers import Broker, machine_cpu_seconds
from wire import ProduceReply, batch, produce_frame, spread

MEGA, GIGA = 1_000_000, 1_000_000_000
KILOBYTE = 1024
DEFAULT_BATCH_BYTES, LARGE_BATCH_BYTES = 16 << 10, 256 << 10
ACKS_ALL = -1
# Two clients: Kafka works on one request of a connection at a time, so that with one client its
# second core would have nothing to do.
CONNECTIONS = 2
# A topic gets no more than this and a row that is faster goes on with another one. A log stays in
# its first segment, so that nobody waits for the disk to take the one before: the rows compare
# brokers and not a disk with itself.
TOPIC_BYTES_MAX = 950 * MEGA
TOPICS_MAX = 3
FETCHED_BYTES = 500 * MEGA
LATENCY_RATE = 2_000
MANY_PARTITIONS = 1_000
SETTLE_SECONDS = 3
# Warm is who needs at least this share of what the load cost the time before.
WARM_RATIO = 0.93

Figures = dict[str, float]
_topics = count()

# The names of figures; the table knows their units and targets.
MB_S, RECORDS_S, CPU_GB = "MB/s", "krecords/s", "CPU s/GB"
CLIENT, OTHERS = "client busy %", "others busy %"
P50, P99, RSS, IDLE, START = "p50 ms", "p99 ms", "RSS MB", "idle CPU s", "start s"


@dataclass(frozen=True)
class Durations:
    row_s: float = 3.0
    latency_s: float = 4.0
    idle_s: float = 10.0
    warm_up_s: float = 6.0
    warm_ups_max: int = 6


QUICK = Durations(row_s=1.5, latency_s=2.0, idle_s=3.0, warm_up_s=3.0, warm_ups_max=1)


@dataclass(frozen=True)
class Row:
    """A load with a name; `kind` says which targets hold for its figures."""

    kind: str
    name: str
    measure: Callable[[Broker, Durations], Figures] = field(repr=False)


def all_rows() -> list[Row]:
    """Every row that runs on a warmed-up broker, in the order of the table."""
    rows = [
        _produce_row(value, acks, partitions, batch_bytes)
        for value, acks, partitions, batch_bytes in product(
            (100, KILOBYTE), (1, ACKS_ALL), (1, 100), (DEFAULT_BATCH_BYTES, LARGE_BATCH_BYTES)
        )
    ]
    rows += [_fetch_row(1), _fetch_row(100)]
    rows.append(Row("latency", f"latency 1KB acks=all {LATENCY_RATE}/s", _latency))
    rows.append(Row("produce-real", "librdkafka produce 1KB acks=all", _librdkafka_produce))
    rows.append(Row("fetch-real", "librdkafka consume 1KB", _librdkafka_consume))
    rows.append(Row("rss", "RSS after load", _resident))
    rows.append(Row("idle", "idle CPU", _idle))
    return rows


def start_row() -> Row:
    return Row("start", "start, empty", first_acknowledgement)


def restart_row() -> Row:
    return Row("start", f"start, {MANY_PARTITIONS} partitions", _restart)


QUICK_ROWS = (
    "start, empty",
    "produce 1KB acks=all p1 16KB",
    "produce 1KB acks=all p100 256KB",
    "fetch p1",
    "latency*",
    "librdkafka*",
    "RSS*",
    "idle*",
)


def warm_up(broker: Broker, durations: Durations) -> int:
    """The load, unmeasured, until it costs the broker no less CPU time than before.

    A JVM compiles its hot paths only after many requests; until then we would measure its compiler.
    Returns how many times the load ran.
    """
    best = float("inf")
    for times in range(1, durations.warm_ups_max + 1):
        cost = _warm_up_once(broker, durations.warm_up_s)
        if cost > best * WARM_RATIO:
            return times
        best = cost
    return durations.warm_ups_max


def _warm_up_once(broker: Broker, seconds: float) -> float:
    """Small requests and large ones, written and read; the CPU time of it all for each GB."""
    meter = _Meter(broker)
    for value_bytes, partitions in product((100, KILOBYTE), (1, 100)):
        with _topic(broker, partitions) as topic:
            works = _works(topic, partitions, value_bytes, DEFAULT_BATCH_BYTES, ACKS_ALL)
            with meter:
                meter.moved(
                    load.produce(broker.port, works, seconds=seconds / 5, bytes_max=TOPIC_BYTES_MAX)
                )
            ends = broker.log_end_offsets(topic, partitions)
            load.fetch(broker.port, topic, ends, CONNECTIONS, seconds=seconds / 20)
    return meter.figures(KILOBYTE)[CPU_GB]


def first_acknowledgement(broker: Broker, _: Durations) -> Figures:
    """Start a node on an empty directory until a record in a new topic is acknowledged."""
    begin = time.perf_counter()
    broker.launch()
    topic = _new_topic()
    broker.create_topic(topic, 1)
    load.produce(broker.port, [_one_by_one(topic)], seconds=60, bytes_max=1)
    seconds = time.perf_counter() - begin
    broker.delete_topic(topic)
    return {START: seconds}


def _restart(broker: Broker, _: Durations) -> Figures:
    """Stop a node with many partitions properly; start it until a record is acknowledged."""
    topic = _new_topic()
    broker.create_topic(topic, MANY_PARTITIONS)
    groups = spread(MANY_PARTITIONS, 2 * KILOBYTE)
    work = _work(topic, groups, KILOBYTE, 0, 1)
    load.produce(broker.port, [work], seconds=60, bytes_max=sum(work.value_bytes))
    broker.stop()
    begin = time.perf_counter()
    broker.launch()
    broker.log_end_offsets(topic, 1)
    load.produce(broker.port, [_one_by_one(topic)], seconds=60, bytes_max=1)
    return {START: time.perf_counter() - begin}


def _produce_row(value_bytes: int, acks: int, partitions: int, batch_bytes: int) -> Row:
    size = "1KB" if value_bytes == KILOBYTE else f"{value_bytes}B"
    called = "all" if acks == ACKS_ALL else acks
    name = f"produce {size} acks={called} p{partitions} {batch_bytes >> 10}KB"

    def measure(broker: Broker, durations: Durations) -> Figures:
        meter = _Meter(broker)
        for _ in range(TOPICS_MAX):
            left_s = durations.row_s - meter.seconds
            if left_s > 0.1:
                produce_to_new_topic(broker, meter, left_s)
        return meter.figures(value_bytes)

    def produce_to_new_topic(broker: Broker, meter: _Meter, seconds: float) -> None:
        with _topic(broker, partitions) as topic:
            works = _works(topic, partitions, value_bytes, batch_bytes, acks)
            # The first batch of a partition makes files, which is not what this row is about.
            once = max(sum(work.value_bytes) for work in works) * len(works)
            first = load.produce(broker.port, works, seconds=60, bytes_max=once)
            with meter:
                size = load.produce(
                    broker.port, works, seconds=seconds, bytes_max=TOPIC_BYTES_MAX - first
                )
            meter.moved(size)
            _check_stored(broker, topic, partitions, (first + size) // value_bytes)

    return Row("produce", name, measure)


def _fetch_row(partitions: int) -> Row:
    def measure(broker: Broker, durations: Durations) -> Figures:
        with _topic(broker, partitions) as topic:
            _fill(broker, topic, partitions)
            ends = broker.log_end_offsets(topic, partitions)
            meter = _Meter(broker)
            with meter:
                size = load.fetch(broker.port, topic, ends, CONNECTIONS, seconds=durations.row_s)
            meter.moved(size)
            return meter.figures(KILOBYTE)

    return Row("fetch", f"fetch p{partitions}", measure)


def _latency(broker: Broker, durations: Durations) -> Figures:
    with _topic(broker, 1) as topic:
        work = _one_by_one(topic)
        seconds = durations.latency_s
        latencies = load.paced_latencies_ms(broker.port, work, rate=LATENCY_RATE, seconds=seconds)
    cuts = statistics.quantiles(latencies, n=100)
    return {P50: cuts[49], P99: cuts[98]}


def _librdkafka_produce(broker: Broker, durations: Durations) -> Figures:
    with _topic(broker, 1) as topic:
        meter = _Meter(broker)
        with meter:
            records = real_client.produce(broker.port, topic, KILOBYTE, seconds=durations.row_s)
        meter.moved(records * KILOBYTE)
        _check_stored(broker, topic, 1, records)
        return meter.figures(KILOBYTE)


def _librdkafka_consume(broker: Broker, _: Durations) -> Figures:
    with _topic(broker, 1) as topic:
        _fill(broker, topic, 1)
        (end,) = broker.log_end_offsets(topic, 1)
        meter = _Meter(broker)
        with meter:
            real_client.consume(broker.port, topic, end)
        meter.moved(end * KILOBYTE)
        return meter.figures(KILOBYTE)


def _resident(broker: Broker, _: Durations) -> Figures:
    return {RSS: broker.resident_bytes() / MEGA}


def _idle(broker: Broker, durations: Durations) -> Figures:
    """What it costs while nothing happens: these sleeps wait for no fact, they are the measured."""
    time.sleep(SETTLE_SECONDS)
    before = broker.cpu_seconds()
    time.sleep(durations.idle_s)
    return {IDLE: (broker.cpu_seconds() - before) * 10 / durations.idle_s}


class _Meter:
    """Time, and CPU time of the broker, of ourselves and of all others, over some blocks."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.seconds = self._broker_s = self._client_s = self._machine_s = 0.0
        self._bytes = 0

    def __enter__(self) -> None:
        self._add(-1)

    def __exit__(self, *_: object) -> None:
        self._add(1)

    def _add(self, sign: int) -> None:
        self.seconds += sign * time.perf_counter()
        self._broker_s += sign * self._broker.cpu_seconds()
        self._client_s += sign * time.process_time()
        self._machine_s += sign * machine_cpu_seconds()

    def moved(self, size: int) -> None:
        self._bytes += size

    def figures(self, record_bytes: int) -> Figures:
        others_s = self._machine_s - self._broker_s - self._client_s
        return {
            MB_S: self._bytes / MEGA / self.seconds,
            RECORDS_S: self._bytes / record_bytes / 1000 / self.seconds,
            CPU_GB: self._broker_s / (self._bytes / GIGA),
            CLIENT: 100 * self._client_s / self.seconds,
            OTHERS: 100 * max(0.0, others_s) / self.seconds,
        }


def _check_stored(broker: Broker, topic: str, partitions: int, records: int) -> None:
    stored = sum(broker.log_end_offsets(topic, partitions))
    assert stored == records, f"{records} records acknowledged, {stored} in the log"


def _new_topic() -> str:
    return f"bench-{next(_topics)}"


@contextmanager
def _topic(broker: Broker, partitions: int) -> Iterator[str]:
    with broker.topic(_new_topic(), partitions) as name:
        yield name


def _fill(broker: Broker, topic: str, partitions: int) -> None:
    """So much data that it stays in the page cache, as evenly as the requests allow."""
    works = _works(topic, partitions, KILOBYTE, DEFAULT_BATCH_BYTES, ACKS_ALL)
    load.produce(broker.port, works, seconds=60, bytes_max=FETCHED_BYTES)


def _works(
    topic: str, partitions: int, value_bytes: int, batch_bytes: int, acks: int
) -> list[load.Work]:
    """The partitions dealt out to the connections; a single one is everybody's."""
    groups = spread(partitions, batch_bytes)
    if len(groups) < CONNECTIONS:
        return [_work(topic, groups, value_bytes, batch_bytes, acks)] * CONNECTIONS
    return [
        _work(topic, groups[n::CONNECTIONS], value_bytes, batch_bytes, acks)
        for n in range(CONNECTIONS)
    ]


def _work(
    topic: str, groups: list[list[int]], value_bytes: int, batch_bytes: int, acks: int
) -> load.Work:
    records, number = batch(value_bytes, batch_bytes)
    return load.Work(
        frames=[produce_frame(topic, group, records, acks) for group in groups],
        replies=[ProduceReply(topic, len(group)) for group in groups],
        value_bytes=[number * value_bytes * len(group) for group in groups],
    )


def _one_by_one(topic: str) -> load.Work:
    """Requests of one record, as a producer without linger sends them."""
    return _work(topic, [[0]], KILOBYTE, 0, ACKS_ALL)
