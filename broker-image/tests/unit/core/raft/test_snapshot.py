from pathlib import Path

import pytest

from pykraft.core.raft.batches import decode_batch, split_batches
from pykraft.core.raft.snapshot import (
    BOOTSTRAP_ID,
    SnapshotId,
    decode_snapshot,
    delete_unfinished,
    encode_snapshot,
    list_snapshots,
    read_snapshot,
    read_timestamp,
    write_snapshot,
)
from pykraft.core.raft.voters import Voter, VoterAddress, VoterSet
from pykraft.core.storage import StorageError
from pykraft.ids import Uuid
from pykraft.protocol.metadata_records import (
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    TopicRecord,
    encode_record,
)
from pykraft.runtime.disk import RealDisk

VOTERS = VoterSet((Voter(1, Uuid(b"d" * 16), (VoterAddress("C", "h", 9093),)),))
RECORDS: list[MetadataRecord] = [
    FeatureLevelRecord(name="metadata.version", feature_level=30),
    *(TopicRecord(name=f"t{n}", topic_id=Uuid(bytes([n] * 16))) for n in range(1, 60)),
]
ID = SnapshotId(77, 3)


def encoded(records: list[MetadataRecord] = RECORDS, batch_bytes_max: int = 1 << 20) -> bytes:
    return b"".join(
        encode_snapshot(
            records,
            encode_record,
            epoch=3,
            now_ms=1_000,
            last_contained_log_timestamp=900,
            kraft_version=1,
            voters=VOTERS,
            batch_bytes_max=batch_bytes_max,
        )
    )


def test_a_snapshot_gives_back_what_went_in() -> None:
    snapshot = decode_snapshot(ID, encoded())
    assert list(snapshot.records) == RECORDS
    assert snapshot.voters == VOTERS
    assert snapshot.kraft_version == 1
    assert snapshot.last_contained_log_timestamp == 900


def test_records_are_in_batches_of_bounded_size_with_consecutive_offsets() -> None:
    batches = [decode_batch(batch) for batch in split_batches(encoded(batch_bytes_max=200))]
    assert len(batches) > 5
    assert all(batch.header.size < 400 for batch in batches)
    offset = 0
    for batch in batches:
        assert batch.header.base_offset == offset
        assert batch.header.leader_epoch == 3
        offset = batch.header.last_offset + 1


def test_a_file_that_is_cut_anywhere_is_refused() -> None:
    data = encoded(RECORDS[:5], batch_bytes_max=60)
    for end in range(len(data)):
        with pytest.raises(StorageError, match=ID.file_name):
            decode_snapshot(ID, data[:end])


def test_a_file_with_a_flipped_bit_is_refused() -> None:
    data = encoded(RECORDS[:5])
    start = 0
    for batch in split_batches(data):
        # From the checksum on; what lies before it is not protected by one.
        for position in range(start + 17, start + len(batch)):
            damaged = bytearray(data)
            damaged[position] ^= 0x10
            with pytest.raises(StorageError):
                decode_snapshot(ID, damaged)
        start += len(batch)


def test_a_snapshot_has_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    disk = RealDisk(str(tmp_path))
    disk.make_dir("m")

    def torn() -> object:
        yield encoded()[:50]
        assert [name.endswith(".part") for name in disk.list("m")] == [True]
        raise StorageError("full")

    with pytest.raises(StorageError):
        write_snapshot(disk, "m", ID, torn())  # type: ignore[arg-type]
    assert list_snapshots(disk, "m") == []
    delete_unfinished(disk, "m")
    assert disk.list("m") == []
    size = write_snapshot(disk, "m", ID, [encoded()])
    assert size == len(encoded())
    assert disk.list("m") == ["00000000000000000077-0000000003.checkpoint"]
    assert read_snapshot(disk, "m", ID).records == tuple(RECORDS)
    assert read_timestamp(disk, "m", ID) == 900


def test_snapshots_are_listed_from_the_oldest(tmp_path: Path) -> None:
    disk = RealDisk(str(tmp_path))
    disk.make_dir("m")
    for snapshot_id in (SnapshotId(100, 2), BOOTSTRAP_ID, SnapshotId(20, 9)):
        write_snapshot(disk, "m", snapshot_id, [encoded([NoOpRecord()])])
    assert list_snapshots(disk, "m") == [BOOTSTRAP_ID, SnapshotId(20, 9), SnapshotId(100, 2)]
