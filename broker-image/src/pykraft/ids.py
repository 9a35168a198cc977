"""Names for the numbers and byte strings that must not be mixed up.

Topic, directory and incarnation ids are sixteen raw bytes everywhere inside the node; Kafka's
text form (URL-safe base64 without padding) exists only in files, logs and on the command line.
"""

import base64
from typing import NewType

NodeId = NewType("NodeId", int)
Offset = NewType("Offset", int)
Epoch = NewType("Epoch", int)
ProducerId = NewType("ProducerId", int)
Uuid = NewType("Uuid", bytes)

ZERO_UUID = Uuid(bytes(16))
# The id that Kafka reserves for the topic `__cluster_metadata`.
METADATA_TOPIC_ID = Uuid(bytes(15) + b"\x01")

# Kafka's reserved directory ids (KIP-858).
UNASSIGNED_DIR = ZERO_UUID
LOST_DIR = Uuid(bytes(15) + b"\x01")
MIGRATING_DIR = Uuid(bytes(15) + b"\x02")
# An id below this one has a reserved meaning, so a random id that is smaller is drawn again.
FIRST_UNRESERVED_UUID = Uuid(bytes(15) + b"\x64")


def uuid_to_text(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def uuid_from_text(text: str) -> Uuid:
    """Raises ValueError when `text` is not sixteen bytes of URL-safe base64."""
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(raw) != 16:
        raise ValueError(f"{text!r} is {len(raw)} bytes of base64, an id has 16")
    return Uuid(raw)
