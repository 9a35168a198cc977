"""The file `partition.metadata`: which topic, by id, a folder belongs to."""

from pykraft.core.storage import Disk
from pykraft.ids import Uuid, uuid_from_text, uuid_to_text

FILE_NAME = "partition.metadata"


def metadata_path(folder: str) -> str:
    return f"{folder}/{FILE_NAME}"


def read_topic_id(disk: Disk, folder: str) -> Uuid | None:
    """None when the file is absent or damaged."""
    try:
        lines = disk.read(metadata_path(folder)).decode().splitlines()
        return uuid_from_text(dict(line.split(": ", 1) for line in lines)["topic_id"])
    except (FileNotFoundError, ValueError, KeyError):
        return None


def write_topic_id(disk: Disk, folder: str, topic_id: Uuid) -> None:
    """Synced by the log's first flush, not here."""
    text = f"version: 0\ntopic_id: {uuid_to_text(topic_id)}"
    disk.write_atomically(metadata_path(folder), text.encode(), sync=False)
