import pytest

from pykraft.core.log import index as index_module
from pykraft.core.log.files import OpenFiles
from pykraft.core.log.index import IndexDamagedError, OffsetIndex, TimeIndex
from pykraft.runtime.disk import RealDisk


@pytest.fixture
def files(disk: RealDisk) -> OpenFiles:
    return OpenFiles(disk)


def filled(files: OpenFiles, count: int, *, written: int = 0) -> OffsetIndex:
    index = OffsetIndex(files, "i")
    for at in range(count):
        if at == written and at:
            index.write()
        index.add(10 * at + 5, 1000 * at)
    return index


@pytest.mark.parametrize(
    ("count", "written"), [(1, 0), (3, 2), (2000, 0), (2000, 1900), (700, 699)]
)
def test_a_look_up_finds_the_last_entry_not_above(
    files: OpenFiles, count: int, written: int
) -> None:
    index = filled(files, count, written=written)
    assert index.find(4) is None
    for at in {0, 1, count // 2, count - 1} & set(range(count)):
        assert index.find(10 * at + 5) == (10 * at + 5, 1000 * at)
        assert index.find(10 * at + 14) == (10 * at + 5, 1000 * at)


def test_a_look_up_in_a_large_file_reads_little(
    files: OpenFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = filled(files, 10_000)
    index.write()
    reads = []
    read_page = index_module.Index._read_page
    monkeypatch.setattr(
        index_module.Index,
        "_read_page",
        lambda self, low, high: reads.append(high - low) or read_page(self, low, high),
    )
    assert index.find(50_008) == (50_005, 5_000_000)
    assert len(reads) < 12
    assert sum(reads) < 300


def test_written_entries_are_in_kafkas_form_and_are_loaded_again(
    disk: RealDisk, files: OpenFiles
) -> None:
    index = filled(files, 3)
    index.write()
    assert disk.read("i")[8:16] == (15).to_bytes(4, "big") + (1000).to_bytes(4, "big")
    again = OffsetIndex(files, "i")
    again.load()
    assert (again.entries, again.last) == (3, (25, 2000))


@pytest.mark.parametrize("kept", [0, 1, 2, 3, 4])
def test_entries_are_dropped_from_file_and_memory(files: OpenFiles, kept: int) -> None:
    index = filled(files, 4, written=2)
    index.keep(kept)
    assert index.entries == kept
    assert index.find(10**6) == ((10 * kept - 5, 1000 * (kept - 1)) if kept else None)
    index.add(100, 100_000)
    index.write()
    again = OffsetIndex(files, "i")
    again.load()
    assert (again.entries, again.last) == (kept + 1, (100, 100_000))


@pytest.mark.parametrize("data", [b"odd", bytes(80), b"\xff" * 16])
def test_what_cannot_be_an_index_is_damaged(disk: RealDisk, files: OpenFiles, data: bytes) -> None:
    disk.write_atomically("i", data)
    with pytest.raises(IndexDamagedError):
        OffsetIndex(files, "i").load()


def test_an_absent_index_is_damaged(files: OpenFiles) -> None:
    with pytest.raises(IndexDamagedError):
        TimeIndex(files, "i").load()


def test_a_time_is_added_only_when_it_is_later(files: OpenFiles) -> None:
    index = TimeIndex(files, "i")
    for timestamp, offset in ((100, 1), (100, 2), (90, 3), (101, 4)):
        index.add_if_later(timestamp, offset)
    assert index.entries == 2
    assert index.last == (101, 4)
