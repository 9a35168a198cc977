"""Carries out what the raft replica decides: the log on disk, its syncs, its snapshots.

One sync runs at a time, in a worker. What is appended while it runs is synced by the next: many
operations share one sync, and none waits for more than two.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pykraft.core.log.flushing import Flush
from pykraft.core.log.partition_log import PartitionLog
from pykraft.core.raft import quorum_state
from pykraft.core.raft.batches import control_batch, metadata_batch
from pykraft.core.raft.metadata_log import (
    FOLDER,
    MetadataLogConfig,
    clean,
    open_metadata_log,
    read_log,
)
from pykraft.core.raft.quorum_state import QuorumState, format_quorum_state, parse_quorum_state
from pykraft.core.raft.replica import Replica
from pykraft.core.raft.snapshot import SnapshotId, encode_snapshot, write_snapshot
from pykraft.core.raft.voters import VoterSet
from pykraft.core.storage import Disk, StorageError
from pykraft.handlers.context import World
from pykraft.ids import Uuid, uuid_to_text
from pykraft.protocol.control_records import ControlRecord, KRaftVersion, Voters
from pykraft.protocol.metadata_records import MetadataRecord

log = logging.getLogger("pykraft.raft")

# Records, the offset of the last, its epoch.
Loader = Callable[[Sequence[MetadataRecord], int, int], None]


class QuorumError(Exception):
    """This node cannot take part in its quorum; the message says what to set right."""


@dataclass(frozen=True, slots=True)
class RaftConfig:
    node_id: int
    directory_id: Uuid
    # From controller.quorum.voters; counts only as long as kraft.version is 0.
    static_voters: VoterSet = field(default_factory=VoterSet)
    log: MetadataLogConfig = field(default_factory=MetadataLogConfig)


class RaftDriver:
    def __init__(
        self,
        disk: Disk,
        world: World,
        config: RaftConfig,
        *,
        on_fatal: Callable[[StorageError], None],
    ) -> None:
        self.disk = disk
        self.world = world
        self.config = config
        self.on_fatal = on_fatal
        self.on_advance: Callable[[int], None] = _ignore
        self.replica: Replica
        self.log: PartitionLog
        self.failed = False
        # Bytes of the log behind the newest snapshot, and when that was made.
        self.bytes_since_snapshot = 0
        self.snapshot_ms = 0
        # Of the last batch in the log.
        self.last_timestamp_ms = 0
        self._voters_are_in_log = False
        self._is_syncing = False
        self._is_snapshotting = False
        self._when_idle: Callable[[], None] | None = None

    # Opening

    def open(self, load: Loader) -> None:
        """Read snapshot and log into `load`. Raises StorageError and QuorumError."""
        now_ms = self.world.now_ms()
        opened = open_metadata_log(self.disk, self.config.log, now_ms=now_ms, warn=log.error)
        self.log = opened.log
        voters, kraft_version, offset, epoch = VoterSet(), 0, 0, 0
        if opened.snapshot is not None:
            snapshot = opened.snapshot
            offset, epoch = snapshot.id
            kraft_version = snapshot.kraft_version
            voters = snapshot.voters or voters
            # The snapshot 0-0 is a file of `format`: the voters still have to get into the log.
            self._voters_are_in_log = offset > 0
            load(snapshot.records, offset - 1, epoch)
            self.snapshot_ms = snapshot.last_contained_log_timestamp if offset > 0 else now_ms
        self.snapshot_ms = self.snapshot_ms or now_ms
        control: list[ControlRecord] = []
        for batch in read_log(self.log, offset):
            control += batch.control
            epoch = batch.header.leader_epoch
            self.bytes_since_snapshot += batch.header.size
            self.last_timestamp_ms = batch.header.max_timestamp
            load(batch.records, batch.header.last_offset, epoch)
        self._make_replica(voters, kraft_version, epoch, control)

    def _make_replica(
        self,
        voters: VoterSet,
        kraft_version: int,
        epoch: int,
        control: Iterable[ControlRecord],
    ) -> None:
        self.replica = Replica(
            node_id=self.config.node_id,
            directory_id=self.config.directory_id,
            voters=voters,
            kraft_version=kraft_version,
            state=self._read_state(),
            log_end_offset=self.log.log_end_offset,
            log_end_epoch=epoch,
        )
        for record in control:
            self.replica.apply_control(record)
            if isinstance(record, KRaftVersion | Voters):
                self._voters_are_in_log = True
        if self.replica.kraft_version == 0:
            self.replica.voters = self.config.static_voters
        self._check_voters()

    def _check_voters(self) -> None:
        node_id, directory_id = self.config.node_id, self.config.directory_id
        voters = self.replica.voters
        if voters.is_only_voter(node_id, directory_id):
            return
        if not voters.voters:
            raise QuorumError(
                "no voters are known: format with --standalone, or set controller.quorum.voters"
            )
        if len(voters.voters) > 1:
            raise QuorumError(
                f"the quorum has the voters {voters.ids}; this version runs a quorum of one"
            )
        raise QuorumError(
            f"node {node_id} with directory {uuid_to_text(directory_id)} is not the voter "
            f"{voters.ids[0]} with directory {uuid_to_text(voters.voters[0].directory_id)}"
        )

    def _read_state(self) -> QuorumState:
        try:
            data = self.disk.read(f"{FOLDER}/{quorum_state.FILE_NAME}")
        except FileNotFoundError:
            return QuorumState()
        return parse_quorum_state(data)

    def _write_state(self, state: QuorumState) -> None:
        data = format_quorum_state(state, self.replica.kraft_version, self.replica.voters.ids)
        self.disk.write_atomically(f"{FOLDER}/{quorum_state.FILE_NAME}", data)

    # Leading

    def lead(self) -> None:
        """Win the election that only we vote in, and say so in the log."""
        replica = self.replica
        self._write_state(replica.campaign())
        won = replica.count_votes()
        assert won is not None, "a quorum of one voter is its own majority"
        self._write_state(won)
        records = replica.opening_records(self._voters_are_in_log)
        self._append(
            control_batch(
                records,
                base_offset=self.log.log_end_offset,
                epoch=replica.epoch,
                now_ms=self.world.now_ms(),
            )
        )
        self._voters_are_in_log = True
        log.info("leads epoch %d from offset %d", replica.epoch, replica.log_end_offset)

    @property
    def epoch(self) -> int:
        return self.replica.epoch

    @property
    def is_leader(self) -> bool:
        return self.replica.is_leader and not self.failed

    @property
    def high_watermark(self) -> int:
        return self.replica.high_watermark

    @property
    def is_all_committed(self) -> bool:
        return self.replica.high_watermark == self.log.log_end_offset

    def append(self, values: Sequence[bytes]) -> int:
        """Append encoded records as one batch. Returns the offset of the last."""
        assert self.is_leader
        batch = metadata_batch(
            values,
            base_offset=self.log.log_end_offset,
            epoch=self.replica.epoch,
            now_ms=self.world.now_ms(),
        )
        return self._append(batch) - 1

    def _append(self, batch: bytes) -> int:
        now_ms = self.world.now_ms()
        end = self.log.append_with_offsets(memoryview(batch), now_ms=now_ms)
        self.last_timestamp_ms = now_ms
        self.bytes_since_snapshot += len(batch)
        self.replica.appended(end)
        self._sync()
        return end

    # Syncing

    def _sync(self) -> None:
        if self._is_syncing or self.failed:
            return
        flush = self.log.begin_flush()
        if flush is None:
            return
        self._is_syncing = True
        self.world.in_worker(flush.run, lambda _: self._synced(flush), self._fail)

    def _synced(self, flush: Flush) -> None:
        self._is_syncing = False
        self.log.finish_flush(flush, self.world.now_ms())
        before = self.replica.high_watermark
        after = self.replica.synced(flush.end_offset)
        # The next sync runs while we tell what this one committed.
        self._sync()
        if after > before:
            self.on_advance(after)
        self._tell_if_idle()

    def _fail(self, error: BaseException) -> None:
        if not isinstance(error, StorageError):
            raise error
        if not self.failed:
            self.failed = True
            self.on_fatal(error)

    # Snapshots

    def take_snapshot(
        self,
        records: Sequence[MetadataRecord],
        encode: Callable[[MetadataRecord], bytes],
        *,
        epoch: int,
    ) -> bool:
        """Write `records` as the state at the high watermark. False if one is being written.

        Only when everything is committed: the log is rolled at its end, so that a recovery need not
        look at what the snapshot has.
        """
        assert self.is_all_committed
        if self._is_snapshotting or self.failed:
            return False
        now_ms = self.world.now_ms()
        snapshot_id = SnapshotId(self.high_watermark, epoch)
        batches = encode_snapshot(
            records,
            encode,
            epoch=epoch,
            now_ms=now_ms,
            last_contained_log_timestamp=self.last_timestamp_ms,
            kraft_version=self.replica.kraft_version,
            voters=self.replica.voters,
            batch_bytes_max=self.config.log.batch_bytes_max,
        )
        self.log.roll(now_ms)
        self._is_snapshotting = True
        self.bytes_since_snapshot = 0
        self.snapshot_ms = now_ms
        self.world.in_worker(
            lambda: write_snapshot(self.disk, FOLDER, snapshot_id, batches),
            lambda size: self._snapshot_written(snapshot_id, size),
            self._snapshot_failed,
        )
        return True

    def _snapshot_written(self, snapshot_id: SnapshotId, size: int) -> None:
        log.info("snapshot %s of %d bytes", snapshot_id.file_name, size)
        gone = clean(self.disk, self.log, self.config.log, now_ms=self.world.now_ms())
        self.world.in_worker(lambda: self._delete(gone), self._snapshot_ended, self._fail)

    def _delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.disk.delete(path)

    def _snapshot_ended(self, _: None) -> None:
        self._is_snapshotting = False
        self._tell_if_idle()

    def _snapshot_failed(self, error: BaseException) -> None:
        self._is_snapshotting = False
        self._fail(error)

    # Stopping

    def stop(self, done: Callable[[], None]) -> None:
        """Nobody appends any more: close the log when all of it is committed."""

        def close() -> None:
            self.replica.resign()
            if not self.failed:
                self.log.close(clean=True)
            done()

        self._when_idle = close
        self._tell_if_idle()

    def _tell_if_idle(self) -> None:
        when_idle = self._when_idle
        is_idle = self.failed or not (self._is_syncing or self._is_snapshotting)
        # A log that we do not lead is not ours to commit.
        is_idle = is_idle and (self.is_all_committed or not self.is_leader)
        if when_idle is not None and is_idle:
            self._when_idle = None
            when_idle()

    # What others ask

    def describe_quorum(self) -> dict[str, Any]:
        """The body of DescribeQuorum."""
        now_ms = self.world.now_ms()
        replica = self.replica
        is_dynamic = replica.kraft_version > 0
        voters = [
            {
                "replica_id": voter.id,
                "replica_directory_id": voter.directory_id,
                "log_end_offset": replica.log_end_offset,
                "last_fetch_timestamp": now_ms,
                "last_caught_up_timestamp": now_ms,
            }
            for voter in replica.voters.voters
        ]
        partition = {
            "partition_index": 0,
            "error_code": 0,
            "error_message": "",
            "leader_id": replica.leader_id,
            "leader_epoch": replica.epoch,
            "high_watermark": replica.high_watermark,
            "current_voters": voters,
            "observers": [],
        }
        nodes = [
            {
                "node_id": voter.id,
                "listeners": [
                    {"name": each.listener, "host": each.host, "port": each.port}
                    for each in voter.addresses
                ],
            }
            for voter in replica.voters.voters
            if is_dynamic or voter.addresses
        ]
        return {
            "error_code": 0,
            "error_message": "",
            "topics": [{"topic_name": "__cluster_metadata", "partitions": [partition]}],
            "nodes": nodes,
        }


def _ignore(_: int) -> None:
    return None
