import pytest

from pykraft.core.log.checkpoints import read_checkpoint, write_checkpoint
from pykraft.runtime.disk import RealDisk


def test_a_checkpoint_is_written_as_kafka_writes_it(disk: RealDisk) -> None:
    write_checkpoint(disk, "points", {("b", 1): 7, ("a", 0): 12})
    assert disk.read("points") == b"0\n2\na 0 12\nb 1 7\n"
    assert read_checkpoint(disk, "points") == {("a", 0): 12, ("b", 1): 7}


def test_an_absent_checkpoint_is_empty(disk: RealDisk) -> None:
    assert read_checkpoint(disk, "points") == {}


@pytest.mark.parametrize(
    "text",
    [b"", b"0\n", b"1\n1\na 0 1\n", b"0\n2\na 0 1\n", b"0\n1\na 0 1", b"0\n1\na 0\n", b"0\nx\n"],
)
def test_a_damaged_checkpoint_is_empty(disk: RealDisk, text: bytes) -> None:
    disk.write_atomically("points", text)
    assert read_checkpoint(disk, "points") == {}
