"""One voter of the quorum: its epoch, its role, and how far the log is committed.

Transitions:

    Unattached -> Candidate   nobody leads, and we are a voter: a new epoch, our vote for ourselves
    Candidate  -> Leader      a majority of the voters granted its vote
    Leader     -> Resigned    we stop, and leave the epoch to others

A quorum of one voter is its own majority. Followers, observers, pre-votes and the requests that
bring votes of others come with more voters; their place is here, one class per role.

The replica decides; it writes nothing itself. A QuorumState that a method returns must be on disk
before the replica's next word is acted upon.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pykraft.core.raft.quorum_state import NOBODY, QuorumState
from pykraft.core.raft.voters import VoterSet
from pykraft.ids import ZERO_UUID, Uuid
from pykraft.protocol.control_records import ControlRecord, KRaftVersion, LeaderChange, Voters


@dataclass(slots=True)
class Unattached:
    """In an epoch whose leader we do not know."""


@dataclass(slots=True)
class Candidate:
    # Invariant: holds our own vote, which is on disk.
    granted: set[int]


@dataclass(slots=True)
class Leader:
    # Nothing counts as committed before a record of our own epoch is (Raft 5.4.2).
    epoch_start_offset: int
    # How far each voter has synced the log; our own is what the disk acknowledged.
    synced_ends: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Resigned:
    """We led this epoch and shall write no more in it."""


Role = Unattached | Candidate | Leader | Resigned


class Replica:
    """Invariants: the epoch never goes back; high_watermark <= what a majority has synced."""

    def __init__(
        self,
        *,
        node_id: int,
        directory_id: Uuid,
        voters: VoterSet,
        kraft_version: int,
        state: QuorumState,
        log_end_offset: int,
        log_end_epoch: int,
    ) -> None:
        self.node_id = node_id
        self.directory_id = directory_id
        self.voters = voters
        self.kraft_version = kraft_version
        # The log may know a later epoch than a quorum-state file that was restored or lost.
        self.epoch = max(state.leader_epoch, log_end_epoch)
        self.log_end_offset = log_end_offset
        self.high_watermark = 0
        self.role: Role = Unattached()

    @property
    def is_leader(self) -> bool:
        return isinstance(self.role, Leader)

    @property
    def leader_id(self) -> int:
        return self.node_id if self.is_leader else NOBODY

    def campaign(self) -> QuorumState:
        """A new epoch, in which we vote for ourselves."""
        assert self.voters.is_voter(self.node_id, self.directory_id), "only a voter may campaign"
        assert not self.is_leader
        # A restarted voter must not use again an epoch in which it may have voted (Raft 5.2).
        self.epoch += 1
        self.role = Candidate({self.node_id})
        directory = ZERO_UUID if self.kraft_version == 0 else self.directory_id
        return QuorumState(NOBODY, self.epoch, self.node_id, directory)

    def count_votes(self) -> QuorumState | None:
        """The state of a leader once a majority granted its vote; None while it has not."""
        assert isinstance(self.role, Candidate)
        if len(self.role.granted) < self.voters.majority:
            return None
        self.role = Leader(epoch_start_offset=self.log_end_offset)
        return QuorumState(self.node_id, self.epoch)

    def opening_records(self, voters_are_in_log: bool) -> Sequence[ControlRecord]:
        """What a leader writes first. The voters follow when only a file of `format` has them."""
        assert isinstance(self.role, Leader)
        granting = self.voters.election_voters()
        records: list[ControlRecord] = [
            LeaderChange(
                leader_id=self.node_id,
                voters=self.voters.election_voters(),
                granting_voters=granting,
            )
        ]
        if self.kraft_version > 0 and not voters_are_in_log:
            records.append(KRaftVersion(k_raft_version=self.kraft_version))
            records.append(self.voters.to_record())
        return records

    def appended(self, end_offset: int) -> None:
        assert isinstance(self.role, Leader), "only a leader appends"
        assert end_offset > self.log_end_offset
        self.log_end_offset = end_offset

    def synced(self, end_offset: int) -> int:
        """Our disk has the log up to here. Returns the high watermark."""
        return self.voter_synced(self.node_id, end_offset)

    def voter_synced(self, voter: int, end_offset: int) -> int:
        if not isinstance(self.role, Leader):
            return self.high_watermark
        assert end_offset <= self.log_end_offset
        ends = self.role.synced_ends
        ends[voter] = max(end_offset, ends.get(voter, 0))
        known = sorted((ends.get(each, 0) for each in self.voters.ids), reverse=True)
        committed = known[self.voters.majority - 1]
        if committed > self.role.epoch_start_offset:
            self.high_watermark = max(self.high_watermark, committed)
        return self.high_watermark

    def resign(self) -> None:
        if self.is_leader:
            self.role = Resigned()

    def apply_control(self, record: ControlRecord) -> None:
        """Voters and kraft.version count from when they are in the log, committed or not."""
        if isinstance(record, KRaftVersion):
            self.kraft_version = record.k_raft_version
        elif isinstance(record, Voters):
            self.voters = VoterSet.from_record(record)
