"""The metrics page, read back with Prometheus' own parser."""

import pytest
from played_node import HEALTHY, partition
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from pykraft.counters import Counters
from pykraft.ops.metrics import PIECE, NodeCollector, Snapshot, render
from pykraft.ops.view import LogDirStats

Labels = tuple[tuple[str, str], ...]


def page_of(collector: NodeCollector) -> dict[str, dict[Labels, float]]:
    text = b"".join(render(collector.pieces())).decode()
    page: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            page.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return page


@pytest.fixture
def collector() -> NodeCollector:
    collector = NodeCollector(Counters())
    collector.snapshot = Snapshot(HEALTHY, [LogDirStats("/a", True)])
    return collector


def test_topics_appear_by_name_and_once_more_as_their_sum(collector: NodeCollector) -> None:
    collector.counters.topic("orders").bytes_in += 100
    collector.counters.topic("payments").bytes_in += 10
    collector.counters.forget_topic("payments")
    assert page_of(collector)["kafka_server_brokertopicmetrics_bytesin_total"] == {
        (): 110,
        (("topic", "orders"),): 100,
    }


@pytest.mark.parametrize(
    "name",
    [
        # What Strimzi's dashboards for Kafka and KRaft ask for, and a single node can know.
        "kafka_server_replicamanager_leadercount",
        "kafka_server_replicamanager_partitioncount",
        "kafka_server_replicamanager_underreplicatedpartitions",
        "kafka_cluster_partition_atminisr",
        "kafka_cluster_partition_underminisr",
        "kafka_cluster_partition_replicascount",
        "kafka_controller_kafkacontroller_activecontrollercount",
        "kafka_controller_kafkacontroller_offlinepartitionscount",
        "kafka_server_brokertopicmetrics_bytesin_total",
        "kafka_server_brokertopicmetrics_bytesout_total",
        "kafka_server_brokertopicmetrics_messagesin_total",
        "kafka_server_brokertopicmetrics_totalproducerequests_total",
        "kafka_server_brokertopicmetrics_failedproducerequests_total",
        "kafka_server_brokertopicmetrics_totalfetchrequests_total",
        "kafka_server_brokertopicmetrics_failedfetchrequests_total",
        "kafka_server_socket_server_metrics_connection_count",
        "kafka_log_log_size",
        "kafka_log_log_logendoffset",
        "kafka_log_log_logstartoffset",
        "kafka_log_log_numlogsegments",
        "kafka_server_raftmetrics_current_epoch",
        "kafka_server_raftmetrics_high_watermark",
        "kafka_server_brokermetadatametrics_last_applied_record_offset",
        "kafka_log_logmanager_offlinelogdirectorycount",
        "process_resident_memory_bytes",
        "process_cpu_seconds_total",
        "process_open_fds",
        "pykraft_event_loop_lag_seconds",
    ],
)
def test_the_usual_dashboards_find_their_names(collector: NodeCollector, name: str) -> None:
    assert collector.snapshot is not None
    collector.snapshot.partitions.append(partition())
    assert name in page_of(collector)


def test_requests_errors_and_times_come_per_api(collector: NodeCollector) -> None:
    produce = collector.counters.request(0)
    for _ in range(100):
        produce.answered(2_000_000)
    produce.error(87)
    page = page_of(collector)
    of_produce = (("request", "Produce"),)
    times = page["kafka_network_requestmetrics_totaltimems"]
    assert page["kafka_network_requestmetrics_requests_total"][of_produce] == 100
    assert page["kafka_network_requestmetrics_errors_total"] == {
        (("error", "INVALID_RECORD"), *of_produce): 1
    }
    assert 1 <= times[("quantile", "0.99"), *of_produce] <= 2
    assert page["kafka_network_requestmetrics_totaltimems_count"][of_produce] == 100
    assert page["kafka_network_requestmetrics_totaltimems_sum"][of_produce] == 200


def test_a_fetch_also_counts_as_a_consumers_fetch(collector: NodeCollector) -> None:
    collector.counters.request(1).answered(1)
    page = page_of(collector)["kafka_network_requestmetrics_requests_total"]
    assert page == {(("request", "Fetch"),): 1, (("request", "FetchConsumer"),): 1}


def test_keys_that_no_api_has_are_shown_as_unknown(collector: NodeCollector) -> None:
    collector.counters.request(9999).answered(1)
    page = page_of(collector)["kafka_network_requestmetrics_requests_total"]
    assert page == {(("request", "Unknown"),): 1}


def test_those_who_wait_are_shown_per_purgatory(collector: NodeCollector) -> None:
    collector.counters.node.fetch_purgatory += 3
    page = page_of(collector)["kafka_server_delayedoperationpurgatory_purgatorysize"]
    assert page == {(("delayedOperation", "Produce"),): 0, (("delayedOperation", "Fetch"),): 3}


def test_what_only_a_leader_knows_is_absent_for_other_partitions(collector: NodeCollector) -> None:
    assert collector.snapshot is not None
    collector.snapshot.partitions += [
        partition(number=0, replicas=3, isr_size=2),
        partition(number=1, is_leader=False, isr_size=0),
    ]
    page = page_of(collector)
    assert page["kafka_server_replicamanager_partitioncount"] == {(): 2}
    assert page["kafka_server_replicamanager_leadercount"] == {(): 1}
    assert page["kafka_server_replicamanager_underreplicatedpartitions"] == {(): 1}
    assert len(page["kafka_log_log_size"]) == 2
    assert page["kafka_cluster_partition_insyncreplicascount"] == {
        (("partition", "0"), ("topic", "orders")): 2
    }


def test_a_failed_disk_is_counted_and_named(collector: NodeCollector) -> None:
    collector.snapshot = Snapshot(
        HEALTHY,
        [LogDirStats("/a", True), LogDirStats("/b", False)],
        [partition(offline=True)],
    )
    page = page_of(collector)
    assert page["kafka_log_logmanager_offlinelogdirectorycount"] == {(): 1}
    assert page["kafka_log_logmanager_logdirectoryoffline"][(("logDirectory", "/b"),)] == 1
    assert page["kafka_server_replicamanager_offlinereplicacount"] == {(): 1}


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (HEALTHY, 3),
        (HEALTHY._replace(fenced=True), 2),
        (HEALTHY._replace(fenced=True, shutting_down=True), 7),
    ],
)
def test_the_broker_state_is_kafkas_number(
    collector: NodeCollector, status: object, state: int
) -> None:
    collector.snapshot = Snapshot(status, [])  # type: ignore[arg-type]
    assert page_of(collector)["kafka_server_kafkaserver_brokerstate"] == {(): state}


def test_a_large_family_comes_in_small_pieces_under_one_heading(collector: NodeCollector) -> None:
    assert collector.snapshot is not None
    collector.snapshot.partitions += [partition(number=n) for n in range(3 * PIECE + 1)]
    assert max(len(piece.samples) for piece in collector.pieces()) <= PIECE
    text = b"".join(render(collector.pieces())).decode()
    assert text.count("# TYPE kafka_log_log_size gauge\n") == 1
    assert text.count("\nkafka_log_log_size{") == 3 * PIECE + 1


def test_a_registry_gets_whole_families_and_makes_the_same_page(collector: NodeCollector) -> None:
    assert collector.snapshot is not None
    collector.snapshot.partitions += [partition(number=n) for n in range(PIECE + 1)]
    registry = CollectorRegistry()
    registry.register(collector)
    lines = generate_latest(registry).splitlines()
    ours = b"".join(render(collector.pieces())).splitlines()
    assert [x for x in lines if b"process_" not in x] == [x for x in ours if b"process_" not in x]


def test_a_topic_name_with_quotes_cannot_break_the_page(collector: NodeCollector) -> None:
    # Kafka allows no such name; the page does not rely on it.
    collector.counters.topic('a"} 1\nb').messages_in += 1
    page = page_of(collector)["kafka_server_brokertopicmetrics_messagesin_total"]
    assert page[(("topic", 'a"} 1\nb'),)] == 1
