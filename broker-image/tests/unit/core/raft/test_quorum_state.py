import pytest

from pykraft.core.raft.quorum_state import QuorumState, format_quorum_state, parse_quorum_state
from pykraft.core.storage import StorageError
from pykraft.ids import Uuid

DIRECTORY = Uuid(bytes(range(16)))

# What Apache Kafka 4.3.1 wrote.
DYNAMIC = (
    b'{"leaderId":1,"leaderEpoch":6,"votedId":-1,'
    b'"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
)
STATIC = (
    b'{"clusterId":"","leaderId":3,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
    b'"currentVoters":[{"voterId":3}],"data_version":0}'
)


def test_kafkas_file_of_a_dynamic_quorum_is_read_and_written_alike() -> None:
    state = parse_quorum_state(DYNAMIC)
    assert state == QuorumState(leader_id=1, leader_epoch=6)
    assert format_quorum_state(state, 1, (1,)) == DYNAMIC


def test_kafkas_file_of_a_static_quorum_is_read_and_written_alike() -> None:
    state = parse_quorum_state(STATIC)
    assert state == QuorumState(leader_id=3, leader_epoch=1)
    assert format_quorum_state(state, 0, (3,)) == STATIC


def test_a_vote_is_kept() -> None:
    state = QuorumState(leader_epoch=4, voted_id=2, voted_directory_id=DIRECTORY)
    assert parse_quorum_state(format_quorum_state(state, 1, (1, 2))) == state


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"not json", DYNAMIC[:40], DYNAMIC.replace(b":1}", b":9}")]
)
def test_a_damaged_file_stops_the_start_instead_of_guessing_an_epoch(data: bytes) -> None:
    with pytest.raises(StorageError, match="quorum-state cannot be read"):
        parse_quorum_state(data)
