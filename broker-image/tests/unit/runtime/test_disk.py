import errno
import os
from pathlib import Path

import pytest

from pykraft.core.storage import AbsentError, Disk, File, StorageError
from pykraft.runtime.disk import RealDisk, RealFile


@pytest.fixture
def disk(tmp_path: Path) -> RealDisk:
    return RealDisk(str(tmp_path))


def test_it_is_what_the_core_asks_for(disk: RealDisk) -> None:
    asked: Disk = disk
    file: File = asked.open("f", create=True)
    file.append([b"a"])
    assert (asked.size_of("f"), file.size) == (1, 1)


def test_parts_are_appended_in_order_and_read_at_any_place(disk: RealDisk) -> None:
    file = disk.open("f", create=True)
    file.append([b"one", memoryview(b"-two-")[1:4], bytearray(b"three")])
    assert file.size == 11
    assert file.read_at(3, 3) == b"two"
    assert file.read_at(9, 100) == b"ee"
    assert disk.open("f").size == 11


def test_a_short_write_is_finished(disk: RealDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    file = disk.open("f", create=True)
    monkeypatch.setattr(os, "writev", lambda fd, parts: os.write(fd, b"".join(parts)[:4]))
    file.append([b"abc", b"defgh"])
    assert (disk.read("f"), file.size) == (b"abcdefgh", 8)


def test_a_write_that_fails_half_way_leaves_nothing(
    disk: RealDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open("f", create=True)
    file.append([b"before"])

    def full(fd: int, parts: list[bytes]) -> int:
        os.write(fd, b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "writev", full)
        with pytest.raises(StorageError, match="No space left"):
            file.append([b"abcdefgh"])
    assert (disk.read("f"), file.size) == (b"before", 6)
    file.append([b" after"])
    assert disk.read("f") == b"before after"


def test_absence_is_told_from_failure(disk: RealDisk) -> None:
    for ask in (disk.open, disk.read, disk.size_of, disk.modified_ms, disk.list, disk.sync_dir):
        with pytest.raises(AbsentError, match="absent: No such file"):
            ask("absent")
    with pytest.raises(StorageError):
        disk.rename("absent", "other")
    with pytest.raises(StorageError):
        disk.write_atomically("absent/f", b"")


def test_when_a_file_was_written_is_known(disk: RealDisk, tmp_path: Path) -> None:
    disk.write_atomically("f", b"")
    os.utime(tmp_path / "f", ns=(0, 1_700_000_000_123_456_789))
    assert disk.modified_ms("f") == 1_700_000_000_123


@pytest.mark.parametrize("sync", [True, False])
def test_a_file_is_replaced_as_a_whole(disk: RealDisk, sync: bool) -> None:
    disk.write_atomically("f", b"old content", sync=sync)
    disk.write_atomically("f", b"new", sync=sync)
    assert disk.read("f") == b"new"
    assert disk.list() == ["f"]


def test_files_and_whole_folders_are_deleted_and_absence_is_no_error(disk: RealDisk) -> None:
    disk.make_dir("d/e")
    disk.make_dir("d/e")
    disk.write_atomically("d/e/f", b"")
    disk.sync_dir("d")
    assert disk.is_dir("d/e")
    for path in ("d/e/f", "d/e/f", "d", "d"):
        disk.delete(path)
    assert not disk.exists("d")


def test_a_file_closes_when_nobody_holds_it(disk: RealDisk) -> None:
    file: RealFile | None = disk.open("f", create=True)
    assert file is not None
    fd = file.fileno()
    os.fstat(fd)
    file = None
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
