"""The metrics page: Kafka's numbers under the names that Kafka's dashboards ask for.

Kafka itself has JMX beans; their names in Prometheus come from the rules of the JMX exporter. The
spelling here is that of Strimzi's rules (examples/metrics/kafka-metrics.yaml, which go back to the
exporter's own kafka-2_0_0.yml, with lowercaseOutputName), and so of its Grafana dashboards for
Kafka and KRaft: `kafka.server<type=BrokerTopicMetrics, name=BytesInPerSec, topic=x><>Count` becomes
`kafka_server_brokertopicmetrics_bytesin_total{topic="x"}`, a gauge keeps its bean's name, and a
histogram becomes `..._totaltimems{quantile=}` with `..._totaltimems_count`. As in JMX, the counters
per topic come a second time without a topic, as the sum over all. What Kafka has no name for begins
with `pykraft_`.

A page of many partitions is made in pieces of at most `PIECE` samples, because whoever makes it
shares one interpreter with the data path and should let go of it often.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice

from prometheus_client import ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from pykraft import __version__
from pykraft.counters import Counters, RequestCounters, TopicCounters
from pykraft.ops.quantiles import RecentTimes, quantile_ns
from pykraft.ops.view import LogDirStats, NodeStatus, NodeView, PartitionStats
from pykraft.protocol.errors import ErrorCode
from pykraft.protocol.versions import NAMES

__all__ = ["NodeCollector", "NodeView", "PartitionStats", "Snapshot", "render"]

# About a third of a millisecond of work.
PIECE = 50
QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
NS_PER_MS = 1e6
NS_PER_S = 1e9

# Kafka's BrokerState: in recovery until unfenced, then running.
STATE_RECOVERY, STATE_RUNNING, STATE_SHUTTING_DOWN = 2, 3, 7

TOPIC_COUNTERS = (
    ("messagesin", "messages_in", "Records appended."),
    ("bytesin", "bytes_in", "Bytes of record batches received from clients."),
    ("bytesout", "bytes_out", "Bytes of record batches sent to clients."),
    ("bytesrejected", "bytes_rejected", "Bytes of record batches refused."),
    ("totalproducerequests", "produce_requests", "Produce, counted per partition."),
    ("failedproducerequests", "failed_produce", "Produce answered with an error, per partition."),
    ("totalfetchrequests", "fetch_requests", "Fetch, counted per partition."),
    ("failedfetchrequests", "failed_fetch", "Fetch answered with an error, per partition."),
)

PartitionGauge = tuple[str, str, Callable[[PartitionStats], float]]
PARTITION_GAUGES: tuple[PartitionGauge, ...] = (
    ("kafka_log_log_size", "Bytes of all segments.", lambda p: p.size),
    ("kafka_log_log_logstartoffset", "First offset.", lambda p: p.log_start_offset),
    ("kafka_log_log_logendoffset", "Next offset to be written.", lambda p: p.log_end_offset),
    ("kafka_log_log_numlogsegments", "Segments.", lambda p: p.segments),
    ("pykraft_log_high_watermark", "End of what consumers may read.", lambda p: p.high_watermark),
)
# Only the leader knows these, as in Kafka.
LEADER_GAUGES: tuple[PartitionGauge, ...] = (
    ("kafka_cluster_partition_replicascount", "Replicas.", lambda p: p.replicas),
    ("kafka_cluster_partition_insyncreplicascount", "In-sync replicas.", lambda p: p.isr_size),
    (
        "kafka_cluster_partition_underreplicated",
        "1 when a replica is out of sync.",
        lambda p: p.isr_size < p.replicas,
    ),
    (
        "kafka_cluster_partition_underminisr",
        "1 when acks=all is refused.",
        lambda p: p.isr_size < p.min_isr,
    ),
    (
        "kafka_cluster_partition_atminisr",
        "1 when one replica less makes acks=all fail.",
        lambda p: p.isr_size == p.min_isr,
    ),
)


@dataclass(slots=True)
class Snapshot:
    """What was asked of the node for one page."""

    status: NodeStatus
    log_dirs: Sequence[LogDirStats]
    partitions: list[PartitionStats] = field(default_factory=list)


class NodeCollector(Collector):
    """Makes one page from the counters and a snapshot. `collect` is for any registry."""

    def __init__(self, counters: Counters) -> None:
        self.counters = counters
        self.snapshot: Snapshot | None = None
        self._recent: dict[int, RecentTimes] = {}
        self._process = ProcessCollector(registry=None)

    def collect(self) -> Iterator[Metric]:
        for _, pieces in groupby(self.pieces(), key=lambda piece: piece.name):
            whole, *others = pieces
            for piece in others:
                whole.samples.extend(piece.samples)
            yield whole

    def pieces(self) -> Iterator[Metric]:
        """The page, a large family in several pieces that follow each other."""
        yield from self._topics()
        yield from self._requests()
        yield from self._node()
        yield from self._process.collect()
        if self.snapshot is not None:
            yield from _cluster(self.snapshot.status)
            yield from _log_dirs(self.snapshot.log_dirs)
            yield from _replica_manager(self.snapshot.partitions)
            yield from _partitions(self.snapshot.partitions)

    def _topics(self) -> Iterator[Metric]:
        topics = list(self.counters.topics.items())
        total = self.counters.all_topics()
        for bean, attribute, text in TOPIC_COUNTERS:
            name = f"kafka_server_brokertopicmetrics_{bean}"
            whole = CounterMetricFamily(name, text)
            whole.add_metric((), getattr(total, attribute))
            yield whole
            yield from _topic_pieces(name, text, attribute, topics)

    def _requests(self) -> Iterator[Metric]:
        rows = [
            (name, request)
            for request in list(self.counters.requests.values())
            for name in _request_names(request.api_key)
        ]
        yield _per_request(
            "kafka_network_requestmetrics_requests",
            "Requests answered.",
            rows,
            lambda r: r.requests,
        )
        yield _errors(rows)
        yield self._times(rows)
        yield _per_request(
            "pykraft_request_bytes", "Bytes of requests.", rows, lambda r: r.bytes_in
        )
        yield _per_request(
            "pykraft_response_bytes", "Bytes of responses.", rows, lambda r: r.bytes_out
        )
        slowest = GaugeMetricFamily(
            "pykraft_request_time_max_seconds", "The slowest since the start.", labels=["request"]
        )
        for name, request in rows:
            slowest.add_metric([name], request.time_ns_max / NS_PER_S)
        yield slowest

    def _times(self, rows: Iterable[tuple[str, RequestCounters]]) -> Metric:
        name = "kafka_network_requestmetrics_totaltimems"
        family = SummaryMetricFamily(
            name, "Time in the node; quantiles over five minutes.", labels=["request"]
        )
        now_ns = time.monotonic_ns()
        for request_name, request in rows:
            family.add_metric([request_name], request.requests, request.time_ns / NS_PER_MS)
            times = self._recent.setdefault(request.api_key, RecentTimes())
            recent = times.recent(request.time_buckets, now_ns)
            if not any(recent):
                continue
            for quantile in QUANTILES:
                labels = {"request": request_name, "quantile": str(quantile)}
                # A bucket's upper half may lie above the slowest request that there was.
                value = min(quantile_ns(recent, quantile), request.time_ns_max)
                family.add_sample(name, labels, value / NS_PER_MS)
        return family

    def _node(self) -> Iterator[Metric]:
        node = self.counters.node
        sockets = "kafka_server_socket_server_metrics"
        yield _gauge(f"{sockets}_connection_count", "Open connections.", node.connections_open)
        yield _count(
            f"{sockets}_connection_creation", "Accepted connections.", node.connections_accepted
        )
        yield _count(f"{sockets}_connection_close", "Closed connections.", node.connections_closed)
        yield _gauge(
            f"{sockets}_expired_connections_killed_count",
            "Connections closed after connections.max.idle.ms.",
            node.connections_idle_closed,
        )
        waiting = [("Produce", node.produce_purgatory), ("Fetch", node.fetch_purgatory)]
        for suffix, text in (
            ("purgatorysize", "Requests that wait."),
            ("numdelayedoperations", "The same: there is no second list to purge."),
        ):
            family = GaugeMetricFamily(
                f"kafka_server_delayedoperationpurgatory_{suffix}",
                text,
                labels=["delayedOperation"],
            )
            for operation, count in waiting:
                family.add_metric([operation], count)
            yield family
        yield from self._own_numbers()

    def _own_numbers(self) -> Iterator[Metric]:
        node = self.counters.node
        yield _count(
            "kafka_server_delayedfetchmetrics_expires",
            "Fetches that waited for fetch.max.wait.ms.",
            node.fetch_expired,
        )
        yield _count(
            "kafka_server_delayedproducemetrics_expires",
            "acks=all that ran into the request's time-out.",
            node.produce_expired,
        )
        yield _count(
            "kafka_server_fetchsessioncache_incrementalfetchsessionevictions",
            "Fetch sessions that lost their slot.",
            node.sessions_expired,
        )
        flushes = SummaryMetricFamily("kafka_log_logflushstats_logflushrateandtimems", "fsync.")
        flushes.add_metric((), node.log_flushes, node.log_flush_ns / NS_PER_MS)
        yield flushes
        lag = "pykraft_event_loop_lag"
        yield _gauge(f"{lag}_seconds", "How late the loop ran.", node.loop_lag_ns / NS_PER_S)
        yield _gauge(
            f"{lag}_max_seconds", "The latest since the start.", node.loop_lag_ns_max / NS_PER_S
        )
        yield _count(
            "pykraft_connections_refused", "Turned away at the limit.", node.connections_refused
        )
        yield _count("pykraft_frames_refused", "Frames no answer fits.", node.frames_refused)
        yield _count("pykraft_storage_errors", "Failed disk operations.", node.storage_errors)
        version = GaugeMetricFamily("pykraft_build_info", "Always 1.", labels=["version"])
        version.add_metric([__version__], 1)
        yield version


def render(pieces: Iterable[Metric]) -> Iterator[bytes]:
    """The text of each piece. A family's second piece has no heading of its own."""
    previous = ""
    for piece in pieces:
        text = generate_latest(_Only(piece))
        if piece.name == previous:
            text = text.split(b"\n", 2)[2]  # Past the lines HELP and TYPE.
        previous = piece.name
        yield text


class _Only(Collector):
    def __init__(self, metric: Metric) -> None:
        self.metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self.metric


def _request_names(api_key: int) -> tuple[str, ...]:
    """Kafka's name of the API. Fetch counts under two names."""
    name = NAMES.get(api_key, "Unknown")
    # Dashboards ask for consumers and followers apart; every fetch is a consumer's as long as there
    # is no replication.
    return (name, "FetchConsumer") if name == "Fetch" else (name,)


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def _errors(rows: Iterable[tuple[str, RequestCounters]]) -> Metric:
    # Kafka also counts the successes, as error="NONE"; they are requests_total here.
    family = CounterMetricFamily(
        "kafka_network_requestmetrics_errors", "Error codes.", labels=["request", "error"]
    )
    for name, request in rows:
        for code, count in list(request.errors.items()):
            family.add_metric([name, _error_name(code)], count)
    return family


def _per_request(
    name: str,
    text: str,
    rows: Iterable[tuple[str, RequestCounters]],
    value: Callable[[RequestCounters], int],
) -> Metric:
    family = CounterMetricFamily(name, text, labels=["request"])
    for request_name, request in rows:
        family.add_metric([request_name], value(request))
    return family


def _topic_pieces(
    name: str, text: str, attribute: str, topics: Sequence[tuple[str, TopicCounters]]
) -> Iterator[Metric]:
    for start in range(0, len(topics), PIECE):
        family = CounterMetricFamily(name, text, labels=["topic"])
        for topic, counters in topics[start : start + PIECE]:
            family.add_metric([topic], getattr(counters, attribute))
        yield family


def _partitions(partitions: Sequence[PartitionStats]) -> Iterator[Metric]:
    leaders = [partition for partition in partitions if partition.is_leader]
    for gauges, rows in ((PARTITION_GAUGES, partitions), (LEADER_GAUGES, leaders)):
        for name, text, value in gauges:
            rest = iter(rows)
            while piece := list(islice(rest, PIECE)):
                family = GaugeMetricFamily(name, text, labels=["topic", "partition"])
                for row in piece:
                    family.add_metric([row.topic, str(row.partition)], value(row))
                yield family


def _replica_manager(partitions: Sequence[PartitionStats]) -> Iterator[Metric]:
    leaders = [partition for partition in partitions if partition.is_leader]
    for name, text, value in (
        ("partitioncount", "Partitions hosted.", len(partitions)),
        ("leadercount", "Partitions led.", len(leaders)),
        ("offlinereplicacount", "On failed disks.", sum(p.offline for p in partitions)),
        (
            "underreplicatedpartitions",
            "Led, with a replica out of sync.",
            sum(p.isr_size < p.replicas for p in leaders),
        ),
        (
            "underminisrpartitioncount",
            "Led, and acks=all is refused.",
            sum(p.isr_size < p.min_isr for p in leaders),
        ),
        (
            "atminisrpartitioncount",
            "Led, and one replica less makes acks=all fail.",
            sum(p.isr_size == p.min_isr for p in leaders),
        ),
    ):
        yield _gauge(f"kafka_server_replicamanager_{name}", text, value)


def _broker_state(status: NodeStatus) -> int:
    if status.shutting_down:
        return STATE_SHUTTING_DOWN
    return STATE_RECOVERY if status.fenced else STATE_RUNNING


def _cluster(status: NodeStatus) -> Iterator[Metric]:
    applied = status.metadata_offset
    for name, text, value in (
        ("kafka_server_kafkaserver_brokerstate", "Kafka's BrokerState.", _broker_state(status)),
        ("kafka_server_raftmetrics_current_epoch", "Epoch.", status.metadata_epoch),
        (
            "kafka_server_raftmetrics_high_watermark",
            "End of the committed metadata.",
            status.metadata_end_offset,
        ),
        (
            "kafka_server_brokermetadatametrics_last_applied_record_offset",
            "Metadata that the node works with.",
            applied,
        ),
        ("pykraft_metadata_lag_records", "Committed, not applied.", status.metadata_lag),
        (
            "kafka_server_fetchsessioncache_numincrementalfetchsessions",
            "Fetch sessions.",
            status.fetch_sessions,
        ),
        (
            "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached",
            "Partitions in all fetch sessions.",
            status.fetch_session_partitions,
        ),
    ):
        yield _gauge(name, text, value)
    yield from _controller(status)


def _controller(status: NodeStatus) -> Iterator[Metric]:
    for name, text, value in (
        ("activecontrollercount", "1 on the active controller.", int(status.active_controller)),
        ("activebrokercount", "Brokers in service.", status.brokers_active),
        ("fencedbrokercount", "Brokers registered, not in service.", status.brokers_fenced),
        ("globaltopiccount", "Topics of the cluster.", status.topics),
        ("globalpartitioncount", "Partitions of the cluster.", status.partitions),
        ("offlinepartitionscount", "Partitions without a leader.", status.partitions_offline),
        ("lastappliedrecordoffset", "Metadata applied.", status.metadata_offset),
    ):
        yield _gauge(f"kafka_controller_kafkacontroller_{name}", text, value)


def _log_dirs(log_dirs: Sequence[LogDirStats]) -> Iterator[Metric]:
    yield _gauge(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "Log directories that failed.",
        sum(not directory.online for directory in log_dirs),
    )
    family = GaugeMetricFamily(
        "kafka_log_logmanager_logdirectoryoffline", "1 when it failed.", labels=["logDirectory"]
    )
    for path, online in log_dirs:
        family.add_metric([path], not online)
    yield family


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _count(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)
