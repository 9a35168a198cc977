"""The file `partition.metadata`: which topic, by id, a folder belongs to."""

from pykraft.core.storage import AbsentError, Disk
from pykraft.ids import ZERO_UUID, Uuid, uuid_from_text, uuid_to_text
from pykraft.protocol.errors import ErrorCode, KafkaError

FILE_NAME = "partition.metadata"


def metadata_path(folder: str) -> str:
    return f"{folder}/{FILE_NAME}"


def read_topic_id(disk: Disk, folder: str) -> Uuid | None:
    """None when the file is absent or damaged."""
    try:
        lines = disk.read(metadata_path(folder)).decode().splitlines()
        return uuid_from_text(dict(line.split(": ", 1) for line in lines)["topic_id"])
    except (AbsentError, ValueError, KeyError):
        return None


def ensure_topic_id(disk: Disk, folder: str, topic_id: Uuid | None) -> tuple[Uuid, bool]:
    """The id of the folder's topic, and whether it was written just now, to be synced later."""
    found = read_topic_id(disk, folder)
    if found is not None:
        if topic_id is not None and found != topic_id:
            raise KafkaError(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                f"{folder} has topic id {uuid_to_text(found)}, not {uuid_to_text(topic_id)}",
            )
        return found, False
    if topic_id is None:
        return ZERO_UUID, False
    text = f"version: 0\ntopic_id: {uuid_to_text(topic_id)}"
    disk.write_atomically(metadata_path(folder), text.encode(), sync=False)
    return topic_id, True
