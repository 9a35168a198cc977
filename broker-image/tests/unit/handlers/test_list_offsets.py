"""ListOffsets and OffsetForLeaderEpoch, as observed of Apache Kafka 4.3.1."""

from collections.abc import Callable
from typing import Any

import pytest
from asked_broker import NOW_MS, AskedBroker
from batches import batch_of

from pykraft.core.replication.partition import Partition
from pykraft.core.storage import StorageError
from pykraft.handlers import list_offsets
from pykraft.protocol.errors import ErrorCode
from pykraft.protocol.versions import ApiKey

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = range(-1, -7, -1)
NOT_FOUND = (0, -1, -1, -1)


def append(partition: Partition, *times_ms: int) -> None:
    for time_ms in times_ms:
        batch = batch_of(b"v", timestamp_ms=NOW_MS + time_ms).encode()
        partition.append(memoryview(batch), NOW_MS)


@pytest.fixture
def orders(node: AskedBroker) -> Partition:
    """Five batches; the fourth is the latest by its timestamp."""
    partition = node.create("orders")
    append(partition, 1000, 2000, 1500, 3000, 2500)
    return partition


def offset_of(
    node: AskedBroker,
    timestamp: int,
    version: int = 11,
    *,
    topic: str = "orders",
    index: int = 0,
    epoch: int = -1,
    isolation: int = 0,
    replica: int = -1,
) -> tuple[int, int, int, int]:
    """Error, timestamp, offset and leader epoch of one partition."""
    wanted = {"partition_index": index, "current_leader_epoch": epoch, "timestamp": timestamp}
    answer = node.ask(
        ApiKey.LIST_OFFSETS,
        version,
        replica_id=replica,
        isolation_level=isolation,
        topics=[{"name": topic, "partitions": [wanted]}],
    )
    ((found,),) = (topic.partitions for topic in answer.topics)
    assert found.partition_index == index
    return (found.error_code, found.timestamp, found.offset, found.leader_epoch)


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_knows_the_ends(node: AskedBroker, version: int) -> None:
    epoch = 0 if version >= 4 else -1
    assert offset_of(node, LATEST, version) == (0, -1, 5, epoch)
    assert offset_of(node, EARLIEST, version) == (0, -1, 0, epoch)


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("position", "since", "found"),
    [
        (MAX_TIMESTAMP, 7, (0, NOW_MS + 3000, 3, 0)),
        (EARLIEST_LOCAL, 8, (0, -1, 0, 0)),
        (LATEST_TIERED, 9, NOT_FOUND),
        (PENDING_UPLOAD, 11, NOT_FOUND),
    ],
)
def test_a_position_is_known_from_its_version_on(
    node: AskedBroker, position: int, since: int, found: tuple[int, int, int, int]
) -> None:
    assert offset_of(node, position, since) == found
    assert offset_of(node, position, since - 1)[0] == ErrorCode.UNSUPPORTED_VERSION
    assert offset_of(node, position, 1)[0] == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.usefixtures("orders")
def test_a_position_that_no_version_knows_is_refused(node: AskedBroker) -> None:
    assert offset_of(node, -7) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1)


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("after_ms", "found"),
    [
        (0, (0, NOW_MS + 1000, 0, 0)),
        (1001, (0, NOW_MS + 2000, 1, 0)),
        (2000, (0, NOW_MS + 2000, 1, 0)),
        (2001, (0, NOW_MS + 3000, 3, 0)),
        (3001, NOT_FOUND),
    ],
)
def test_a_time_finds_the_first_record_that_is_not_older(
    node: AskedBroker, after_ms: int, found: tuple[int, int, int, int]
) -> None:
    assert offset_of(node, NOW_MS + after_ms) == found


class Workers:
    """Counts the jobs, and lets something happen while one runs."""

    def __init__(self, node: AskedBroker, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.jobs = 0
        self.meanwhile = meanwhile
        node.in_worker = self  # type: ignore[method-assign, assignment]

    def __call__(
        self, work: Callable[[], Any], done: Callable[[Any], None], failed: Callable[..., None]
    ) -> None:
        self.jobs += 1
        result = work()
        self.meanwhile()
        done(result)


@pytest.mark.usefixtures("orders")
def test_only_what_is_looked_for_in_the_records_needs_a_worker(node: AskedBroker) -> None:
    workers = Workers(node)
    for position in (LATEST, EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD):
        offset_of(node, position)
    assert workers.jobs == 0
    offset_of(node, MAX_TIMESTAMP)
    offset_of(node, NOW_MS)
    assert workers.jobs == 2


def test_a_header_that_promises_too_much_sends_the_search_to_the_next_segment(
    node: AskedBroker,
) -> None:
    partition = node.create("orders")
    forged = batch_of(b"v", timestamp_ms=NOW_MS, max_timestamp_ms=NOW_MS + 5000).encode()
    partition.append(memoryview(forged), NOW_MS)
    partition.log.roll(NOW_MS)
    append(partition, 3000)
    workers = Workers(node)
    assert offset_of(node, NOW_MS + 2000) == (0, NOW_MS + 3000, 1, 0)
    assert workers.jobs == 2
    assert offset_of(node, NOW_MS + 4000) == NOT_FOUND
    assert offset_of(node, MAX_TIMESTAMP) == NOT_FOUND


def test_many_partitions_are_looked_through_some_at_a_time(
    node: AskedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_offsets, "LOOK_UPS_AT_ONCE", 2)
    node.create("orders", partitions=5)
    for index in range(4):
        append(node.partition("orders", index), 1000 + index)
    workers = Workers(node)
    wanted = [{"partition_index": index, "timestamp": NOW_MS} for index in range(5)]
    topics = [{"name": "orders", "partitions": wanted}]
    answer = node.ask(ApiKey.LIST_OFFSETS, 11, replica_id=-1, topics=topics)
    times = [found.timestamp for found in answer.topics[0].partitions]
    assert times == [NOW_MS + 1000, NOW_MS + 1001, NOW_MS + 1002, NOW_MS + 1003, -1]
    assert workers.jobs == 2


@pytest.mark.usefixtures("orders")
def test_a_topic_that_goes_while_a_worker_looks_is_unknown(node: AskedBroker) -> None:
    Workers(node, lambda: node.broker.replicas.remove("orders", 0))
    assert offset_of(node, NOW_MS) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1, -1)


def test_a_disk_that_fails_the_worker_fails_its_partition(
    node: AskedBroker, orders: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[StorageError] = []
    orders.on_storage_error = lambda _, error: failed.append(error)

    def refuse(_: object) -> None:
        raise StorageError("the disk is gone")

    monkeypatch.setattr("pykraft.core.log.time_search.TimeSearch.run", refuse)
    assert offset_of(node, NOW_MS) == (ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1)
    assert len(failed) == 1


def test_an_empty_log_has_ends_and_no_times(node: AskedBroker) -> None:
    node.create("orders")
    assert offset_of(node, LATEST) == (0, -1, 0, 0)
    assert offset_of(node, EARLIEST) == (0, -1, 0, 0)
    assert offset_of(node, MAX_TIMESTAMP) == NOT_FOUND
    assert offset_of(node, NOW_MS) == NOT_FOUND


def test_consumers_see_no_further_than_the_high_watermark(
    node: AskedBroker, orders: Partition
) -> None:
    orders.high_watermark = 3
    assert offset_of(node, LATEST) == (0, -1, 3, 0)
    assert offset_of(node, LATEST, isolation=1) == (0, -1, 3, 0)
    assert offset_of(node, MAX_TIMESTAMP) == NOT_FOUND
    assert offset_of(node, NOW_MS + 2001) == NOT_FOUND
    assert offset_of(node, LATEST, replica=2) == (0, -1, 5, 0)


def test_earliest_moves_with_the_log_start(node: AskedBroker, orders: Partition) -> None:
    orders.log.delete_records_before(2)
    assert offset_of(node, EARLIEST) == (0, -1, 2, 0)
    assert offset_of(node, NOW_MS) == (0, NOW_MS + 1500, 2, 0)


@pytest.mark.usefixtures("orders")
def test_what_is_not_there_is_unknown(node: AskedBroker) -> None:
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1, -1)
    assert offset_of(node, LATEST, topic="nope") == unknown
    assert offset_of(node, LATEST, index=9) == unknown
    assert node.errors(ApiKey.LIST_OFFSETS) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 2}


@pytest.mark.usefixtures("orders")
def test_the_clients_epoch_is_held_against_the_leaders(node: AskedBroker) -> None:
    assert offset_of(node, LATEST, epoch=0)[0] == ErrorCode.NONE
    assert offset_of(node, LATEST, epoch=5)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert offset_of(node, LATEST, epoch=-3)[0] == ErrorCode.FENCED_LEADER_EPOCH


def test_a_follower_is_not_asked(node: AskedBroker, orders: Partition) -> None:
    orders.step_down(2, 1)
    assert offset_of(node, LATEST)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.usefixtures("orders")
def test_an_isolation_level_that_does_not_exist_is_an_error(node: AskedBroker) -> None:
    assert offset_of(node, LATEST, isolation=2)[0] == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.usefixtures("orders")
def test_a_partition_that_is_named_twice_is_refused_once(node: AskedBroker) -> None:
    node.create("other")
    twice = {"partition_index": 0, "timestamp": LATEST}
    answer = node.ask(
        ApiKey.LIST_OFFSETS,
        7,
        replica_id=-1,
        topics=[
            {"name": "orders", "partitions": [twice]},
            {"name": "other", "partitions": [twice]},
            {"name": "orders", "partitions": [twice]},
        ],
    )
    assert [(t.name, [p.error_code for p in t.partitions]) for t in answer.topics] == [
        ("orders", [ErrorCode.INVALID_REQUEST]),
        ("other", [ErrorCode.NONE]),
    ]


# OffsetForLeaderEpoch


def end_of(
    node: AskedBroker, epoch: int, *, current: int = -1, topic: str = "orders", version: int = 4
) -> tuple[int, int, int]:
    wanted = {"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}
    answer = node.ask(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        version,
        replica_id=-1,
        topics=[{"topic": topic, "partitions": [wanted]}],
    )
    ((found,),) = (topic.partitions for topic in answer.topics)
    return (found.error_code, found.leader_epoch, found.end_offset)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_an_epoch_ends_where_the_next_begins(
    node: AskedBroker, orders: Partition, version: int
) -> None:
    assert end_of(node, 0, version=version) == (0, 0, 5)
    orders.lead(3, node_id=1)
    append(orders, 4000)
    assert end_of(node, 0, version=version) == (0, 0, 5)
    assert end_of(node, 2, version=version) == (0, 0, 5)
    assert end_of(node, 3, version=version) == (0, 3, 6)


@pytest.mark.usefixtures("orders")
def test_an_epoch_that_was_never_seen_has_no_end(node: AskedBroker) -> None:
    assert end_of(node, 5) == (0, -1, -1)
    assert end_of(node, -1) == (0, -1, -1)


@pytest.mark.usefixtures("orders")
def test_the_end_of_an_epoch_is_refused_as_offsets_are(node: AskedBroker) -> None:
    assert end_of(node, 0, topic="nope") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert end_of(node, 0, current=3) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
