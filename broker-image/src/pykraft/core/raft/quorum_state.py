"""The file `quorum-state`: which epoch we are in, who leads it, and whom we voted for in it.

It is on disk before a vote counts or a leader acts: after a crash a voter must not vote twice in
one epoch. Version 0 is written as long as kraft.version is 0 and names the static voters.
"""

import json
from dataclasses import dataclass
from typing import Any

from pykraft.core.storage import StorageError
from pykraft.ids import ZERO_UUID, Uuid, uuid_from_text, uuid_to_text

FILE_NAME = "quorum-state"
NOBODY = -1


@dataclass(frozen=True, slots=True)
class QuorumState:
    leader_id: int = NOBODY
    leader_epoch: int = 0
    voted_id: int = NOBODY
    voted_directory_id: Uuid = ZERO_UUID


def format_quorum_state(state: QuorumState, kraft_version: int, voters: tuple[int, ...]) -> bytes:
    fields: dict[str, Any] = {
        "leaderId": state.leader_id,
        "leaderEpoch": state.leader_epoch,
        "votedId": state.voted_id,
    }
    if kraft_version == 0:
        fields = {"clusterId": "", **fields, "appliedOffset": 0}
        fields["currentVoters"] = [{"voterId": voter} for voter in voters]
    else:
        fields["votedDirectoryId"] = uuid_to_text(state.voted_directory_id)
    fields["data_version"] = min(kraft_version, 1)
    return json.dumps(fields, separators=(",", ":")).encode()


def parse_quorum_state(data: bytes) -> QuorumState:
    """Raises StorageError for a file that is not Kafka's; we do not guess an epoch."""
    try:
        fields = json.loads(data)
        version = fields["data_version"]
        if version not in (0, 1):
            raise ValueError(f"data_version {version} is not known")
        voted = fields.get("votedDirectoryId")
        return QuorumState(
            leader_id=int(fields["leaderId"]),
            leader_epoch=int(fields["leaderEpoch"]),
            voted_id=int(fields["votedId"]),
            voted_directory_id=uuid_from_text(voted) if voted else ZERO_UUID,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(f"{FILE_NAME} cannot be read: {error}") from error
