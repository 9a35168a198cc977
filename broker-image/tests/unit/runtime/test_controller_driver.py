"""The controller on a real metadata log, in a world where syncs end when the test says so."""

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from played_cluster import CLUSTER_ID, PlayedCluster, numbered_uuid, request, topic
from stepped_world import SteppedWorld

from pykraft.core.controller.controller import Controller, ControllerConfig, Outcome
from pykraft.core.controller.features import default_bootstrap
from pykraft.core.controller.image import MetadataImage
from pykraft.core.raft.metadata_log import FOLDER, MetadataLogConfig, read_log
from pykraft.core.raft.snapshot import (
    BOOTSTRAP_ID,
    encode_snapshot,
    list_snapshots,
    write_snapshot,
)
from pykraft.core.raft.voters import Voter, VoterSet
from pykraft.core.storage import StorageError
from pykraft.protocol import metadata_records as md
from pykraft.protocol.errors import ErrorCode, KafkaError
from pykraft.protocol.metadata_records import MetadataRecord, encode_record
from pykraft.protocol.versions import ApiKey
from pykraft.runtime import controller_driver
from pykraft.runtime.controller_driver import ControllerDriver, ControllerTimes
from pykraft.runtime.disk import RealDisk
from pykraft.runtime.raft_driver import QuorumError, RaftConfig, RaftDriver

HOME = numbered_uuid(501)
VOTERS = VoterSet((Voter(1, HOME),))
# Nothing happens by the clock, and no snapshot of itself.
BY_HAND = ControllerTimes(0, 1 << 30, 0)
KAFKAS_DEFAULTS = MetadataLogConfig()


class Node:
    """A controller, and a listener that keeps an image of what is committed."""

    def __init__(
        self,
        path: Path,
        times: ControllerTimes = BY_HAND,
        log: MetadataLogConfig = KAFKAS_DEFAULTS,
    ) -> None:
        self.world = SteppedWorld()
        self.disk = RealDisk(str(path))
        if not self.disk.exists(FOLDER):
            self._format()
        self.fatal: list[StorageError] = []
        self.committed: list[MetadataRecord] = []
        raft = RaftDriver(
            self.disk, self.world, RaftConfig(1, HOME, log=log), on_fatal=self.fatal.append
        )
        ids = map(numbered_uuid, range(10_000, 20_000))
        controller = Controller(
            ControllerConfig(node_id=1, cluster_id=CLUSTER_ID),
            lambda: next(ids),
            random.Random(1),
        )
        self.driver = ControllerDriver(
            raft, controller, self.world, times, on_fatal=self.fatal.append
        )
        self.driver.open()
        self.image: MetadataImage = self.driver.committed_image()
        self.driver.listeners.append(self.on_commit)

    def _format(self) -> None:
        self.disk.make_dir(FOLDER)
        batches = encode_snapshot(
            (),
            encode_record,
            epoch=0,
            now_ms=self.world.now_ms(),
            last_contained_log_timestamp=self.world.now_ms(),
            kraft_version=1,
            voters=VOTERS,
        )
        write_snapshot(self.disk, FOLDER, BOOTSTRAP_ID, batches)

    def start(self) -> "Node":
        self.driver.start(default_bootstrap())
        self.world.settle()
        return self

    def on_commit(self, records: Sequence[MetadataRecord], offset: int, epoch: int) -> None:
        for record in records:
            self.image.replay(record)
        self.image.offset, self.image.epoch = offset, epoch
        self.committed += records

    def submit(self, operation: Callable[[Controller], Outcome]) -> list[Mapping[str, Any]]:
        replies: list[Mapping[str, Any]] = []
        self.driver.submit(operation, replies.append)
        return replies

    def add_broker(self) -> "Node":
        played = PlayedCluster()
        played.start()
        records, _ = played.register(1)
        epoch = self.driver.controller.image.offset + 1
        register = records[-1]
        assert isinstance(register, md.RegisterBrokerRecord)
        self.submit(
            lambda _: Outcome(
                [
                    md.RegisterBrokerRecord(
                        broker_id=1,
                        incarnation_id=register.incarnation_id,
                        broker_epoch=epoch,
                        end_points=register.end_points,
                        features=register.features,
                        rack=None,
                        fenced=False,
                        log_dirs=(HOME,),
                    )
                ]
            )
        )
        self.world.settle()
        return self

    def create(self, name: str) -> list[Mapping[str, Any]]:
        body = request(
            ApiKey.CREATE_TOPICS, topics=[topic(name)], timeout=1000, validate_only=False
        )
        return self.submit(lambda controller: controller.create_topics(body))

    def stop(self) -> None:
        stopped: list[bool] = []
        self.driver.stop(lambda: stopped.append(True))
        self.world.settle()
        assert stopped == [True]


def test_a_reply_leaves_when_the_records_are_synced_and_not_before(tmp_path: Path) -> None:
    node = Node(tmp_path).start().add_broker()
    replies = node.create("t")
    assert "t" in node.driver.controller.image.topics
    assert replies == []
    assert "t" not in node.image.topics
    node.world.settle()
    assert replies[0]["topics"][0]["error_code"] == ErrorCode.NONE
    assert node.image.topics == node.driver.controller.image.topics


def test_what_comes_while_a_sync_runs_shares_the_next(tmp_path: Path) -> None:
    node = Node(tmp_path).start().add_broker()
    replies = [node.create(f"t{number}") for number in range(50)]
    assert len(node.world.jobs) == 1
    node.world.work()
    assert [bool(each) for each in replies].count(True) == 1
    node.world.work()
    assert all(replies)
    assert not node.world.jobs


def test_an_answer_without_records_waits_for_what_it_rests_on(tmp_path: Path) -> None:
    node = Node(tmp_path).start().add_broker()
    first, second = node.create("t"), node.create("t")
    assert (first, second) == ([], [])
    node.world.settle()
    assert second[0]["topics"][0]["error_code"] == ErrorCode.TOPIC_ALREADY_EXISTS
    third = node.create("t")
    assert third[0]["topics"][0]["error_code"] == ErrorCode.TOPIC_ALREADY_EXISTS


def test_what_was_acknowledged_is_there_after_a_crash(tmp_path: Path) -> None:
    node = Node(tmp_path).start().add_broker()
    node.create("t")
    node.world.settle()
    again = Node(tmp_path)
    assert "t" in again.image.topics
    again.start()
    assert again.driver.raft.epoch == 2
    assert again.image.topics == node.image.topics
    assert again.image.features == node.image.features


def test_the_first_start_writes_voters_and_bootstrap_and_the_next_only_its_election(
    tmp_path: Path,
) -> None:
    Node(tmp_path).start().stop()
    node = Node(tmp_path).start()
    batches = list(read_log(node.driver.raft.log, 0))
    shapes = [
        [type(record).__name__ for record in (*batch.control, *batch.records)] for batch in batches
    ]
    features = ["FeatureLevelRecord"] * 6
    assert shapes == [
        ["LeaderChange", "KRaftVersion", "Voters"],
        ["BeginTransactionRecord", *features, "ConfigRecord", "EndTransactionRecord"],
        ["LeaderChange"],
    ]
    assert [batch.header.leader_epoch for batch in batches] == [1, 1, 2]


def test_a_snapshot_and_the_log_behind_it_make_the_same_image(tmp_path: Path) -> None:
    node = Node(tmp_path).start().add_broker()
    node.create("before")
    node.world.settle()
    assert node.driver.take_snapshot()
    node.world.settle()
    node.create("after")
    node.world.settle()
    again = Node(tmp_path)
    assert list(again.image.topics) == ["before", "after"]
    assert again.image.brokers == node.image.brokers
    assert again.image.configs == node.image.configs


def test_without_the_log_the_snapshot_alone_is_enough(tmp_path: Path) -> None:
    node = Node(tmp_path).start().add_broker()
    node.create("t")
    node.world.settle()
    node.driver.take_snapshot()
    node.world.settle()
    for path in (tmp_path / FOLDER).glob("*.log"):
        path.unlink()
    again = Node(tmp_path).start()
    assert list(again.image.topics) == ["t"]
    assert again.driver.raft.epoch == 2


def test_a_torn_snapshot_is_passed_over_for_the_one_before(tmp_path: Path) -> None:
    node = Node(tmp_path).start().add_broker()
    for name in ("one", "two"):
        node.create(name)
        node.world.settle()
        node.driver.take_snapshot()
        node.world.settle()
    newest = list_snapshots(node.disk, FOLDER)[-1]
    path = tmp_path / FOLDER / newest.file_name
    path.write_bytes(path.read_bytes()[:-3])
    assert list(Node(tmp_path).image.topics) == ["one", "two"]


def test_a_log_whose_beginning_nobody_has_stops_the_start(tmp_path: Path) -> None:
    small = MetadataLogConfig(retention_bytes=0)
    node = Node(tmp_path, log=small).start().add_broker()
    for name in ("one", "two"):
        node.create(name)
        node.world.settle()
        node.driver.take_snapshot()
        node.world.settle()
    for snapshot_id in list_snapshots(node.disk, FOLDER):
        (tmp_path / FOLDER / snapshot_id.file_name).write_bytes(b"garbage")
    with pytest.raises(StorageError, match="no readable snapshot"):
        Node(tmp_path)


def test_retention_deletes_what_a_newer_snapshot_has(tmp_path: Path) -> None:
    node = Node(tmp_path, log=MetadataLogConfig(retention_bytes=0)).start().add_broker()
    for name in ("one", "two", "three"):
        node.create(name)
        node.world.settle()
        node.driver.take_snapshot()
        node.world.settle()
    assert len(list_snapshots(node.disk, FOLDER)) == 1
    names = node.disk.list(FOLDER)
    assert len([name for name in names if name.endswith(".log")]) == 1
    assert not [name for name in names if name.endswith(".deleted")]
    again = Node(tmp_path).start()
    assert list(again.image.topics) == ["one", "two", "three"]


def test_old_snapshots_go_by_age_but_the_newest_stays(tmp_path: Path) -> None:
    log = MetadataLogConfig(retention_ms=1000)
    node = Node(tmp_path, log=log).start().add_broker()
    node.driver.take_snapshot()
    node.world.settle()
    node.create("t")
    node.world.settle()
    node.world.advance(5000)
    node.driver.take_snapshot()
    node.world.settle()
    assert len(list_snapshots(node.disk, FOLDER)) == 1


def test_enough_bytes_make_a_snapshot(tmp_path: Path) -> None:
    node = Node(tmp_path, ControllerTimes(0, 2_000, 0)).start().add_broker()
    for number in range(30):
        node.create(f"t{number}")
        node.world.settle()
    ids = list_snapshots(node.disk, FOLDER)
    assert len(ids) > 2
    assert list(Node(tmp_path).image.topics) == list(node.image.topics)


def test_enough_time_makes_a_snapshot(tmp_path: Path) -> None:
    node = Node(tmp_path, ControllerTimes(500, 1 << 30, 10_000)).start()
    node.world.advance(9_000)
    assert len(list_snapshots(node.disk, FOLDER)) == 1
    node.world.advance(2_000)
    assert len(list_snapshots(node.disk, FOLDER)) == 2


def test_an_idle_log_moves_on_by_records_that_say_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path, ControllerTimes(500, 1 << 30, 0)).start()
    before = node.driver.raft.high_watermark
    node.world.advance(5_000)
    after = node.driver.raft.high_watermark
    assert after - before in (9, 10)
    assert node.image.offset == after - 1
    assert {type(each) for each in node.committed[-5:]} == {md.NoOpRecord}


def test_an_operation_too_big_for_a_batch_becomes_a_transaction(tmp_path: Path) -> None:
    node = Node(tmp_path, log=MetadataLogConfig(batch_bytes_max=500)).start()
    records: list[MetadataRecord] = [
        md.ConfigRecord(resource_type=4, resource_name="", name=f"key{n}", value="v" * 50)
        for n in range(40)
    ]
    replies = node.submit(lambda _: Outcome(records, {"ok": True}))
    node.world.work()
    assert "key0" not in node.image.configs.get((4, ""), {})
    node.world.settle()
    assert replies == [{"ok": True}]
    assert node.committed[-40:] == records
    written = [record for batch in read_log(node.driver.raft.log, 0) for record in batch.records]
    assert isinstance(written[-42], md.BeginTransactionRecord)
    assert isinstance(written[-1], md.EndTransactionRecord)


def test_a_transaction_that_a_crash_cut_leaves_no_trace(tmp_path: Path) -> None:
    node = Node(tmp_path).start()
    config = md.ConfigRecord(resource_type=4, resource_name="", name="half", value="done")
    node.submit(lambda _: Outcome([md.BeginTransactionRecord(name="cut"), config]))
    node.world.settle()
    assert "half" not in node.image.configs[4, ""]
    again = Node(tmp_path).start()
    assert "half" not in again.image.configs[4, ""]
    assert not again.driver.controller.transactions.is_open
    replies = again.submit(lambda _: Outcome([config], {"ok": True}))
    again.world.settle()
    assert replies == [{"ok": True}]
    assert again.image.configs[4, ""]["half"] == "done"


def test_a_record_of_a_newer_kafka_stops_the_start_with_its_offset(tmp_path: Path) -> None:
    node = Node(tmp_path).start()
    node.driver.raft.append([bytes((1, 99, 0, 0))])
    node.world.settle()
    node.stop()
    with pytest.raises(StorageError, match=r"offsets 12 to 12.*key 99"):
        Node(tmp_path)


def test_a_disk_that_fails_ends_the_controller_and_answers_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(tmp_path).start().add_broker()

    def fail(_: object) -> None:
        raise StorageError("no space")

    monkeypatch.setattr("pykraft.core.log.flushing.Flush.run", fail)
    replies = node.create("t")
    node.world.settle()
    assert replies == []
    assert [str(error) for error in node.fatal] == ["no space"]
    with pytest.raises(KafkaError) as refused:
        node.create("u")
    assert refused.value.code == ErrorCode.NOT_CONTROLLER


def test_too_many_operations_in_flight_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_driver, "OPERATIONS_IN_FLIGHT_MAX", 3)
    node = Node(tmp_path).start().add_broker()
    for number in range(3):
        node.create(f"t{number}")
    with pytest.raises(KafkaError) as refused:
        node.create("t3")
    assert refused.value.code == ErrorCode.REQUEST_TIMED_OUT
    node.world.settle()
    assert node.create("t3") == []


def test_a_stop_waits_for_what_is_in_flight(tmp_path: Path) -> None:
    node = Node(tmp_path).start().add_broker()
    replies = node.create("t")
    node.stop()
    assert replies[0]["topics"][0]["error_code"] == ErrorCode.NONE
    with pytest.raises(KafkaError):
        node.create("u")


def test_a_node_that_is_no_voter_says_so(tmp_path: Path) -> None:
    Node(tmp_path).start().stop()
    world = SteppedWorld()
    config = RaftConfig(1, numbered_uuid(999))
    raft = RaftDriver(RealDisk(str(tmp_path)), world, config, on_fatal=lambda _: None)
    with pytest.raises(QuorumError, match="is not the voter 1"):
        raft.open(lambda *_: None)
    (tmp_path / "empty").mkdir()
    raft = RaftDriver(RealDisk(str(tmp_path / "empty")), world, config, on_fatal=lambda _: None)
    with pytest.raises(QuorumError, match="no voters are known"):
        raft.open(lambda *_: None)


def test_the_quorum_describes_itself(tmp_path: Path) -> None:
    node = Node(tmp_path).start()
    described = node.driver.describe_quorum()
    (partition,) = described["topics"][0]["partitions"]
    assert (partition["leader_id"], partition["leader_epoch"]) == (1, 1)
    assert partition["high_watermark"] == node.driver.raft.high_watermark == 12
    assert [each["replica_id"] for each in partition["current_voters"]] == [1]
