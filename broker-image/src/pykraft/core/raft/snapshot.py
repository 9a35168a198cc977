"""Snapshots of the metadata: `<end offset>-<epoch>.checkpoint`, made of batches like the log.

First a batch of control records (header, and the voters if the quorum is dynamic), then metadata
records, then the footer. A file without a footer was never finished. The name says what it
contains: everything before the end offset, whose last record was written in that epoch.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import crc32c
from typing_extensions import Buffer

from pykraft.core.raft.batches import (
    control_batch,
    decode_batch,
    group_records,
    metadata_batch,
    split_batches,
)
from pykraft.core.raft.voters import VoterSet
from pykraft.core.storage import Disk, StorageError
from pykraft.protocol.control_records import (
    ControlRecord,
    KRaftVersion,
    SnapshotFooter,
    SnapshotHeader,
    Voters,
)
from pykraft.protocol.errors import ProtocolError
from pykraft.protocol.metadata_records import MetadataRecord
from pykraft.records.batch import ATTRIBUTES_AT, HEADER_BYTES, read_header
from pykraft.records.compression import CorruptRecordsError

SUFFIX = ".checkpoint"
PART_SUFFIX = ".checkpoint.part"
# Kafka's bound of a batch in the metadata log and in a snapshot.
BATCH_BYTES_MAX = 8 * 1024 * 1024
BATCH_RECORDS_MAX = 10_000

_NAME = re.compile(r"(?P<offset>\d{20})-(?P<epoch>\d{10})\.checkpoint")


class SnapshotId(NamedTuple):
    """Ordered by what they contain."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}{SUFFIX}"


BOOTSTRAP_ID = SnapshotId(0, 0)


@dataclass(frozen=True, slots=True)
class Snapshot:
    id: SnapshotId
    records: tuple[MetadataRecord, ...]
    kraft_version: int
    voters: VoterSet | None
    last_contained_log_timestamp: int


def encode_snapshot(
    records: Iterable[MetadataRecord],
    encode: Callable[[MetadataRecord], bytes],
    *,
    epoch: int,
    now_ms: int,
    last_contained_log_timestamp: int,
    kraft_version: int = 0,
    voters: VoterSet | None = None,
    batch_bytes_max: int = BATCH_BYTES_MAX,
) -> Iterator[bytes]:
    """The file, batch by batch."""
    header: list[ControlRecord] = [
        SnapshotHeader(last_contained_log_timestamp=last_contained_log_timestamp)
    ]
    if kraft_version > 0:
        assert voters is not None
        header += [KRaftVersion(k_raft_version=kraft_version), voters.to_record()]
    yield control_batch(header, base_offset=0, epoch=epoch, now_ms=now_ms)
    offset = len(header)
    groups = group_records(records, encode, count_max=BATCH_RECORDS_MAX, bytes_max=batch_bytes_max)
    for _, values in groups:
        yield metadata_batch(values, base_offset=offset, epoch=epoch, now_ms=now_ms)
        offset += len(values)
    yield control_batch([SnapshotFooter()], base_offset=offset, epoch=epoch, now_ms=now_ms)


def decode_snapshot(snapshot_id: SnapshotId, data: Buffer) -> Snapshot:
    """Raises StorageError for a file that is torn, corrupt or not a snapshot."""
    name = snapshot_id.file_name
    view = memoryview(data)
    control: list[ControlRecord] = []
    records: list[MetadataRecord] = []
    position = 0
    for batch in split_batches(view):
        if crc32c.crc32c(batch[ATTRIBUTES_AT:]) != read_header(batch).crc:
            raise StorageError(f"snapshot {name}: wrong checksum at byte {position}")
        try:
            decoded = decode_batch(batch)
        except (ProtocolError, CorruptRecordsError) as error:
            raise StorageError(f"snapshot {name}: {error}") from error
        control += decoded.control
        records += decoded.records
        position += len(batch)
    if position != len(view):
        raise StorageError(f"snapshot {name}: {len(view) - position} bytes are half a batch")
    return _assemble(snapshot_id, control, records)


def _assemble(
    snapshot_id: SnapshotId, control: list[ControlRecord], records: list[MetadataRecord]
) -> Snapshot:
    name = snapshot_id.file_name
    if not control or not isinstance(control[0], SnapshotHeader):
        raise StorageError(f"snapshot {name}: it does not begin with a header")
    if not isinstance(control[-1], SnapshotFooter):
        raise StorageError(f"snapshot {name}: it does not end with a footer")
    kraft_version = 0
    voters: VoterSet | None = None
    for record in control:
        if isinstance(record, KRaftVersion):
            kraft_version = record.k_raft_version
        elif isinstance(record, Voters):
            voters = VoterSet.from_record(record)
    return Snapshot(
        snapshot_id,
        tuple(records),
        kraft_version,
        voters,
        control[0].last_contained_log_timestamp,
    )


def list_snapshots(disk: Disk, folder: str) -> list[SnapshotId]:
    """Finished snapshots, the oldest first."""
    found = (_NAME.fullmatch(name) for name in disk.list(folder))
    return sorted(SnapshotId(int(m["offset"]), int(m["epoch"])) for m in found if m)


def delete_unfinished(disk: Disk, folder: str) -> None:
    """What a crash left: a snapshot that was not yet renamed to its name."""
    for name in disk.list(folder):
        if name.endswith(PART_SUFFIX):
            disk.delete(f"{folder}/{name}")


def write_snapshot(
    disk: Disk, folder: str, snapshot_id: SnapshotId, batches: Iterable[bytes]
) -> int:
    """Write, sync, rename, sync the folder: the name never shows half a file. Returns the size."""
    final = f"{folder}/{snapshot_id.file_name}"
    part = final.removesuffix(SUFFIX) + PART_SUFFIX
    disk.delete(part)
    file = disk.open(part, create=True)
    try:
        for batch in batches:
            file.append([batch])
        file.sync()
        size = file.size
    finally:
        file.close()
    disk.rename(part, final)
    disk.sync_dir(folder)
    return size


def read_snapshot(disk: Disk, folder: str, snapshot_id: SnapshotId) -> Snapshot:
    return decode_snapshot(snapshot_id, disk.read(f"{folder}/{snapshot_id.file_name}"))


def read_timestamp(disk: Disk, folder: str, snapshot_id: SnapshotId) -> int:
    """When the last record in a snapshot was written, from the header alone."""
    file = disk.open(f"{folder}/{snapshot_id.file_name}", readonly=True)
    try:
        head = file.read_at(0, HEADER_BYTES)
        size = read_header(head).size if len(head) == HEADER_BYTES else 0
        first = decode_batch(file.read_at(0, size)).control if size >= HEADER_BYTES else ()
    except (ProtocolError, CorruptRecordsError) as error:
        raise StorageError(f"snapshot {snapshot_id.file_name}: {error}") from error
    finally:
        file.close()
    if not first or not isinstance(first[0], SnapshotHeader):
        raise StorageError(f"snapshot {snapshot_id.file_name}: it does not begin with a header")
    return first[0].last_contained_log_timestamp
