import pytest

from pykraft.core.log.epochs import LeaderEpochs
from pykraft.runtime.disk import RealDisk


@pytest.fixture
def epochs(disk: RealDisk) -> LeaderEpochs:
    disk.make_dir("t-0")
    found = LeaderEpochs.load(disk, "t-0")
    for epoch, start in ((2, 0), (4, 10), (7, 25)):
        found.assign(epoch, start)
    return found


def test_the_file_is_kafkas_and_is_read_back(disk: RealDisk, epochs: LeaderEpochs) -> None:
    assert disk.read("t-0/leader-epoch-checkpoint") == b"0\n3\n2 0\n4 10\n7 25\n"
    assert LeaderEpochs.load(disk, "t-0").entries == epochs.entries


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        # As Kafka: a number that no epoch has is older than all.
        (-2, (-2, 0)),
        (1, (1, 0)),
        (2, (2, 10)),
        (3, (2, 10)),
        (4, (4, 25)),
        (6, (4, 25)),
        (7, (7, 40)),
        (8, (-1, -1)),
    ],
)
def test_an_epoch_ends_where_the_next_one_begins(
    epochs: LeaderEpochs, asked: int, answer: tuple[int, int]
) -> None:
    assert epochs.end_offset_for(asked, 40) == answer


def test_without_epochs_none_has_an_end(disk: RealDisk) -> None:
    disk.make_dir("t-0")
    none = LeaderEpochs.load(disk, "t-0")
    assert [none.end_offset_for(epoch, 0) for epoch in (-2, -1, 0)] == [(-1, -1)] * 3


@pytest.mark.parametrize(("offset", "epoch"), [(0, 2), (9, 2), (10, 4), (24, 4), (25, 7), (99, 7)])
def test_an_offset_belongs_to_the_epoch_that_began_last(
    epochs: LeaderEpochs, offset: int, epoch: int
) -> None:
    assert epochs.epoch_for(offset) == epoch


def test_an_epoch_that_is_known_is_no_news(epochs: LeaderEpochs) -> None:
    assert not epochs.assign(7, 30)
    assert epochs.entries[-1] == (7, 25)


def test_a_new_epoch_at_the_same_offset_replaces_one_without_batches(epochs: LeaderEpochs) -> None:
    assert epochs.assign(9, 25)
    assert epochs.entries == [(2, 0), (4, 10), (9, 25)]


def test_cutting_the_end_forgets_epochs_that_began_there(epochs: LeaderEpochs) -> None:
    epochs.truncate_from_end(25)
    assert epochs.entries == [(2, 0), (4, 10)]
    assert epochs.latest == 4


def test_cutting_the_start_keeps_the_epoch_in_which_it_lies(epochs: LeaderEpochs) -> None:
    epochs.truncate_from_start(17)
    assert epochs.entries == [(4, 17), (7, 25)]
    epochs.truncate_from_start(25)
    assert epochs.entries == [(7, 25)]


@pytest.mark.parametrize("text", [b"", b"0\n1\n4 1", b"0\n1\nx y\n", b"\x00" * 20])
def test_a_damaged_file_is_recognised(disk: RealDisk, epochs: LeaderEpochs, text: bytes) -> None:
    disk.write_atomically(epochs.path, text)
    found = LeaderEpochs.load(disk, "t-0")
    assert not found.is_known
    assert found.entries == []
