"""Who a node is: the file `meta.properties` in each of its log directories.

`pykraft format` and Kafka's kafka-storage write it; a node that finds another cluster's or another
node's directory does not start on it.
"""

import os
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pykraft.core.storage import Disk
from pykraft.ids import FIRST_UNRESERVED_UUID, Uuid, uuid_from_text, uuid_to_text
from pykraft.runtime.disk import RealDisk
from pykraft.settings import parse_properties

FILE_NAME = "meta.properties"


class IdentityError(Exception):
    """A directory is not formatted, or it is not this node's. The message says what to do."""


def new_uuid() -> Uuid:
    """A random id that is not reserved and can stand on a command line: no leading dash."""
    while True:
        value = uuid.uuid4().bytes
        if value >= FIRST_UNRESERVED_UUID and not uuid_to_text(value).startswith("-"):
            return Uuid(value)


@dataclass(frozen=True, slots=True)
class MetaProperties:
    cluster_id: str
    node_id: int
    # Absent in what Kafka formatted before 3.7.
    directory_id: Uuid | None


def format_meta_properties(meta: MetaProperties) -> bytes:
    """As Java's Properties would, with the date as a comment."""
    assert meta.directory_id is not None
    stamp = time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime())
    lines = (
        "#",
        f"#{stamp}",
        f"node.id={meta.node_id}",
        f"directory.id={uuid_to_text(meta.directory_id)}",
        "version=1",
        f"cluster.id={meta.cluster_id}",
    )
    return ("\n".join(lines) + "\n").encode()


def parse_meta_properties(path: str, data: bytes) -> MetaProperties:
    values = parse_properties(data.decode("utf-8", "replace"))
    node_id = values.get("node.id") or values.get("broker.id")
    if values.get("version") not in ("0", "1") or not values.get("cluster.id") or not node_id:
        raise IdentityError(f"{path}: it lacks version, cluster.id or node.id; format it anew")
    try:
        text = values.get("directory.id")
        directory_id = uuid_from_text(text) if text else None
        return MetaProperties(values["cluster.id"], int(node_id), directory_id)
    except ValueError as error:
        raise IdentityError(f"{path}: {error}") from error


def read_meta_properties(disk: Disk, root: str) -> MetaProperties | None:
    """None when the directory was never formatted."""
    try:
        data = disk.read(FILE_NAME)
    except FileNotFoundError:
        return None
    return parse_meta_properties(os.path.join(root, FILE_NAME), data)


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    cluster_id: str
    node_id: int
    directory_ids: Mapping[str, Uuid]


def load_identity(directories: Sequence[str], node_id: int) -> NodeIdentity:
    """Read and compare the meta.properties of all directories. Raises IdentityError."""
    found: dict[str, MetaProperties] = {}
    for root in dict.fromkeys(directories):
        meta = read_meta_properties(RealDisk(root), root)
        if meta is None:
            raise IdentityError(
                f"log directory {root} is not formatted: run pykraft format with this config"
            )
        if meta.node_id != node_id:
            raise IdentityError(
                f"{os.path.join(root, FILE_NAME)}: node.id is {meta.node_id}, "
                f"but this node is configured as {node_id}"
            )
        found[root] = meta
    cluster_ids = {meta.cluster_id for meta in found.values()}
    if len(cluster_ids) > 1:
        shown = ", ".join(f"{root}: {meta.cluster_id}" for root, meta in found.items())
        raise IdentityError(f"log directories belong to different clusters: {shown}")
    return NodeIdentity(
        cluster_ids.pop(),
        node_id,
        {root: _with_directory_id(root, meta) for root, meta in found.items()},
    )


def _with_directory_id(root: str, meta: MetaProperties) -> Uuid:
    """A directory of a Kafka before 3.7 gets its id now, as Kafka gives it."""
    if meta.directory_id is not None:
        return meta.directory_id
    complete = MetaProperties(meta.cluster_id, meta.node_id, new_uuid())
    RealDisk(root).write_atomically(FILE_NAME, format_meta_properties(complete))
    assert complete.directory_id is not None
    return complete.directory_id
