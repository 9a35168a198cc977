from pykraft.core.raft.quorum_state import QuorumState
from pykraft.core.raft.replica import Candidate, Leader, Replica, Resigned, Unattached
from pykraft.core.raft.voters import Voter, VoterAddress, VoterSet
from pykraft.ids import Uuid
from pykraft.protocol.control_records import KRaftVersion, LeaderChange, Voters

HOME = Uuid(b"h" * 16)
ME = Voter(1, HOME, (VoterAddress("CONTROLLER", "localhost", 9093),))


def a_replica(voters: tuple[Voter, ...] = (ME,), kraft_version: int = 1, end: int = 0) -> Replica:
    return Replica(
        node_id=1,
        directory_id=HOME,
        voters=VoterSet(voters),
        kraft_version=kraft_version,
        state=QuorumState(leader_epoch=4),
        log_end_offset=end,
        log_end_epoch=3,
    )


def test_the_only_voter_votes_for_itself_before_it_leads() -> None:
    replica = a_replica()
    assert isinstance(replica.role, Unattached)
    ballot = replica.campaign()
    assert isinstance(replica.role, Candidate)
    assert ballot == QuorumState(-1, 5, 1, HOME)
    won = replica.count_votes()
    assert isinstance(replica.role, Leader)
    assert won == QuorumState(1, 5)


def test_one_of_three_does_not_lead_by_its_own_vote() -> None:
    replica = a_replica((ME, Voter(2), Voter(3)))
    replica.campaign()
    assert replica.count_votes() is None
    assert isinstance(replica.role, Candidate)


def test_an_epoch_is_never_used_again_whichever_file_knows_it() -> None:
    replica = a_replica()
    replica.epoch = 9
    assert replica.campaign().leader_epoch == 10
    behind = Replica(
        node_id=1,
        directory_id=HOME,
        voters=VoterSet((ME,)),
        kraft_version=1,
        state=QuorumState(),
        log_end_offset=7,
        log_end_epoch=12,
    )
    assert behind.campaign().leader_epoch == 13


def a_leader(voters: tuple[Voter, ...] = (ME,), end: int = 10) -> Replica:
    replica = a_replica(voters, end=end)
    replica.campaign()
    if len(voters) > 1:
        assert isinstance(replica.role, Candidate)
        replica.role.granted.add(2)
    assert replica.count_votes() is not None
    return replica


def test_voters_are_written_until_they_are_in_the_log() -> None:
    records = a_leader().opening_records(voters_are_in_log=False)
    assert [type(record) for record in records] == [LeaderChange, KRaftVersion, Voters]
    assert len(a_leader().opening_records(voters_are_in_log=True)) == 1


def test_a_static_quorum_has_no_voters_in_its_log() -> None:
    replica = a_replica(kraft_version=0)
    ballot = replica.campaign()
    assert ballot.voted_directory_id == bytes(16)
    replica.count_votes()
    assert len(replica.opening_records(voters_are_in_log=False)) == 1


def test_what_is_synced_is_committed_but_nothing_before_a_record_of_this_epoch() -> None:
    replica = a_leader(end=10)
    assert replica.synced(10) == 0
    replica.appended(11)
    assert replica.synced(11) == 11


def test_the_high_watermark_is_what_a_majority_has_synced_and_never_goes_back() -> None:
    replica = a_leader((ME, Voter(2), Voter(3)), end=0)
    replica.appended(10)
    assert replica.synced(10) == 0
    assert replica.voter_synced(2, 6) == 6
    assert replica.voter_synced(3, 8) == 8
    assert replica.voter_synced(3, 2) == 8


def test_after_resigning_nothing_is_committed() -> None:
    replica = a_leader()
    replica.appended(12)
    replica.resign()
    assert isinstance(replica.role, Resigned)
    assert replica.synced(12) == 0
    assert replica.leader_id == -1


def test_voters_count_by_id_and_directory() -> None:
    voters = VoterSet((ME,))
    assert voters.is_only_voter(1, HOME)
    assert not voters.is_voter(1, Uuid(b"x" * 16))
    assert VoterSet((Voter(1),)).is_only_voter(1, HOME)
    assert VoterSet.from_record(voters.to_record()) == voters
