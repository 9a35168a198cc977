"""Who votes: by id alone in a static quorum, by id and directory in a dynamic one (KIP-853)."""

from dataclasses import dataclass

from pykraft.ids import ZERO_UUID, Uuid
from pykraft.protocol.control_records import (
    ElectionVoter,
    KRaftVersionFeature,
    VoterEndpoint,
    Voters,
)
from pykraft.protocol.control_records import Voter as VoterRecord

KRAFT_VERSION_MIN = 0
KRAFT_VERSION_MAX = 1


@dataclass(frozen=True, slots=True)
class VoterAddress:
    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Voter:
    id: int
    # Unknown, that is zero, in a static quorum.
    directory_id: Uuid = ZERO_UUID
    addresses: tuple[VoterAddress, ...] = ()
    kraft_versions: tuple[int, int] = (KRAFT_VERSION_MIN, KRAFT_VERSION_MAX)


@dataclass(frozen=True, slots=True)
class VoterSet:
    voters: tuple[Voter, ...] = ()

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(voter.id for voter in self.voters)

    def is_voter(self, node_id: int, directory_id: Uuid) -> bool:
        return any(
            voter.id == node_id and voter.directory_id in (ZERO_UUID, directory_id)
            for voter in self.voters
        )

    def is_only_voter(self, node_id: int, directory_id: Uuid) -> bool:
        return len(self.voters) == 1 and self.is_voter(node_id, directory_id)

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    def election_voters(self) -> tuple[ElectionVoter, ...]:
        return tuple(ElectionVoter(voter_id=voter_id) for voter_id in self.ids)

    def to_record(self) -> Voters:
        return Voters(
            voters=tuple(
                VoterRecord(
                    voter_id=voter.id,
                    voter_directory_id=voter.directory_id,
                    endpoints=tuple(
                        VoterEndpoint(name=a.listener, host=a.host, port=a.port)
                        for a in voter.addresses
                    ),
                    k_raft_version_feature=KRaftVersionFeature(
                        min_supported_version=voter.kraft_versions[0],
                        max_supported_version=voter.kraft_versions[1],
                    ),
                )
                for voter in self.voters
            )
        )

    @classmethod
    def from_record(cls, record: Voters) -> "VoterSet":
        return cls(
            tuple(
                Voter(
                    each.voter_id,
                    Uuid(bytes(each.voter_directory_id)),
                    tuple(VoterAddress(e.name, e.host, e.port) for e in each.endpoints),
                    (
                        each.k_raft_version_feature.min_supported_version,
                        each.k_raft_version_feature.max_supported_version,
                    ),
                )
                for each in record.voters
            )
        )
