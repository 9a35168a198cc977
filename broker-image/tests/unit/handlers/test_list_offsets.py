"""ListOffsets and OffsetForLeaderEpoch, as observed of Apache Kafka 4.3.1."""

import pytest
from asked_broker import NOW_MS, AskedBroker
from batches import batch_of

from pykraft.core.replication.partition import Partition
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
