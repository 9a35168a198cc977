"""The metadata log on disk: the newest good snapshot, then the log behind it; and what may go.

Everything before a snapshot's end was committed and synced before the snapshot was made. So a
recovery after a crash begins at the snapshot; the log is rolled there to have a segment begin.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pykraft.core.log.config import LogConfig
from pykraft.core.log.partition_log import PartitionLog
from pykraft.core.raft.batches import MetadataBatch, decode_batch, split_batches
from pykraft.core.raft.snapshot import (
    Snapshot,
    SnapshotId,
    delete_unfinished,
    list_snapshots,
    read_snapshot,
    read_timestamp,
)
from pykraft.core.storage import Disk, StorageError
from pykraft.ids import METADATA_TOPIC_ID
from pykraft.protocol.errors import ProtocolError
from pykraft.records.compression import CorruptRecordsError

FOLDER = "__cluster_metadata-0"
READ_BYTES = 1 << 20
FOR_EVER = -1


@dataclass(frozen=True, slots=True)
class MetadataLogConfig:
    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    retention_bytes: int = 100 << 20
    retention_ms: int = 604_800_000
    batch_bytes_max: int = 8 << 20

    def for_log(self) -> LogConfig:
        # What retention deletes is decided here, by snapshots; the log only drops what lies
        # before its start.
        return LogConfig(
            segment_bytes=self.segment_bytes,
            segment_ms=self.segment_ms,
            retention_ms=FOR_EVER,
            retention_bytes=FOR_EVER,
            max_message_bytes=self.batch_bytes_max,
        )


@dataclass(slots=True)
class OpenedLog:
    log: PartitionLog
    snapshot: Snapshot | None


def open_metadata_log(
    disk: Disk, config: MetadataLogConfig, *, now_ms: int, warn: Callable[[str], None]
) -> OpenedLog:
    """Raises StorageError when neither a snapshot nor the log has the beginning."""
    disk.make_dir(FOLDER)
    delete_unfinished(disk, FOLDER)
    snapshot = _newest_good(disk, warn)
    end = snapshot.id.end_offset if snapshot is not None else 0
    log = PartitionLog.open(
        disk,
        FOLDER,
        config.for_log(),
        now_ms=now_ms,
        clean=False,
        recovery_point=end,
        topic_id=METADATA_TOPIC_ID,
        gapless=True,
    )
    if log.log_end_offset < end:
        # The snapshot came from elsewhere, or the log's tail was lost: the snapshot has it all.
        for path in log.truncate_fully_and_start_at(end, now_ms=now_ms):
            disk.delete(path)
    if log.log_start_offset > end:
        raise StorageError(
            f"{FOLDER}: the log begins at {log.log_start_offset}, and no readable snapshot "
            f"reaches that far (the newest ends at {end})"
        )
    return OpenedLog(log, snapshot)


def _newest_good(disk: Disk, warn: Callable[[str], None]) -> Snapshot | None:
    for snapshot_id in reversed(list_snapshots(disk, FOLDER)):
        try:
            return read_snapshot(disk, FOLDER, snapshot_id)
        except StorageError as error:
            warn(f"{error}; trying the one before")
    return None


def read_log(log: PartitionLog, offset: int) -> Iterator[MetadataBatch]:
    """All batches from `offset` to the log's end. StorageError names one that cannot be read."""
    end = log.log_end_offset
    while offset < end:
        found = log.read(offset, READ_BYTES, end_offset=end, at_least_one=True)
        assert found is not None
        data = found.file.read_at(found.position, found.size)
        before = offset
        for batch in split_batches(data):
            try:
                decoded = decode_batch(batch)
            except (ProtocolError, CorruptRecordsError) as error:
                raise StorageError(f"{FOLDER}: {error}") from error
            yield decoded
            offset = decoded.header.last_offset + 1
        if offset == before:
            raise StorageError(f"{FOLDER}: no whole batch at offset {offset}")


def clean(disk: Disk, log: PartitionLog, config: MetadataLogConfig, *, now_ms: int) -> list[str]:
    """Forget what a newer snapshot contains, when it is too old or all is too much.

    The newest snapshot always stays. Returns files for a worker to delete.
    """
    snapshots = list_snapshots(disk, FOLDER)
    gone: list[str] = []
    while len(snapshots) > 1:
        oldest, following = snapshots[0], snapshots[1]
        sizes = sum(disk.size_of(f"{FOLDER}/{each.file_name}") for each in snapshots)
        is_too_much = sizes + log.size > config.retention_bytes
        if not is_too_much and not _is_too_old(disk, oldest, config.retention_ms, now_ms):
            break
        log.delete_records_before(following.end_offset)
        gone += log.enforce_retention(now_ms)
        gone.append(f"{FOLDER}/{oldest.file_name}")
        del snapshots[0]
    return gone


def _is_too_old(disk: Disk, snapshot_id: SnapshotId, retention_ms: int, now_ms: int) -> bool:
    if retention_ms < 0:
        return False
    try:
        timestamp = read_timestamp(disk, FOLDER, snapshot_id)
    except StorageError:
        # A newer one is good, or we should not have started; this one is of no use to anybody.
        return True
    return now_ms - timestamp > retention_ms
