"""`pykraft format`: the files that make empty directories a node's, as kafka-storage writes them.

meta.properties and bootstrap.checkpoint in every directory; in the metadata directory of a
controller with a dynamic quorum also the snapshot 0-0 with the first voters. meta.properties comes
last: a directory that has it is formatted completely.
"""

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pykraft.core.controller.features import (
    KRAFT_VERSION,
    RELEASES,
    SUPPORTED,
    check_levels,
    default_levels,
)
from pykraft.core.controller.image import METADATA_VERSION
from pykraft.core.controller.records import feature_record
from pykraft.core.raft.snapshot import (
    BOOTSTRAP_ID,
    encode_snapshot,
    write_snapshot,
)
from pykraft.core.raft.voters import Voter, VoterAddress, VoterSet
from pykraft.ids import Uuid, uuid_from_text
from pykraft.protocol.errors import KafkaError
from pykraft.protocol.metadata_records import MetadataRecord, encode_record
from pykraft.runtime.disk import RealDisk
from pykraft.runtime.identity import (
    FILE_NAME,
    IdentityError,
    MetaProperties,
    format_meta_properties,
    new_uuid,
    read_meta_properties,
)
from pykraft.settings import Listener, Settings, advertise

BOOTSTRAP_FILE = "bootstrap.checkpoint"
METADATA_FOLDER = "__cluster_metadata-0"
# metadata.version from which a quorum can be dynamic (KIP-853).
DYNAMIC_QUORUM_SINCE = RELEASES["3.9-IV0"]


class FormatError(Exception):
    """Nothing was formatted; the message says why."""


@dataclass(frozen=True, slots=True)
class _Plan:
    cluster_id: str
    node_id: int
    levels: dict[str, int]
    voters: VoterSet | None
    metadata_dir: str
    metadata_directory_id: Uuid
    now_ms: int


def format_directories(
    settings: Settings,
    cluster_id: str,
    *,
    standalone: bool = False,
    initial_controllers: str | None = None,
    no_initial_controllers: bool = False,
    ignore_formatted: bool = False,
    release_version: str | None = None,
    features: Iterable[str] = (),
) -> list[str]:
    """Format what is not formatted yet. Returns lines for the user. Raises FormatError."""
    _check_quorum_options(settings, standalone, initial_controllers, no_initial_controllers)
    if not cluster_id.strip():
        raise FormatError("the cluster id must not be empty")
    levels = _levels(release_version, features)
    is_dynamic = standalone or initial_controllers is not None
    if is_dynamic and levels[METADATA_VERSION] < DYNAMIC_QUORUM_SINCE:
        raise FormatError("a dynamic quorum needs metadata.version 3.9-IV0 or later")
    wanted = _unformatted(settings, cluster_id, ignore_formatted)
    if not wanted:
        return ["All of the log directories are already formatted."]
    plan = _plan(settings, cluster_id, levels, standalone, initial_controllers)
    return [_format_one(root, plan) for root in wanted]


def _check_quorum_options(
    settings: Settings,
    standalone: bool,
    initial_controllers: str | None,
    no_initial_controllers: bool,
) -> None:
    chosen = sum((standalone, initial_controllers is not None, no_initial_controllers))
    if chosen > 1:
        raise FormatError(
            "choose one of --standalone, --initial-controllers and --no-initial-controllers"
        )
    if settings.quorum_voters and chosen:
        raise FormatError(
            "controller.quorum.voters is set, which makes the quorum static: for a dynamic quorum "
            "remove it and set controller.quorum.bootstrap.servers instead"
        )
    if not settings.is_controller and chosen and not no_initial_controllers:
        raise FormatError("only a node with the controller role can begin a quorum")
    if settings.is_controller and not settings.quorum_voters and not chosen:
        raise FormatError(
            "controller.quorum.voters is not set on this controller, so give one of --standalone, "
            "--initial-controllers and --no-initial-controllers"
        )


def _levels(release_version: str | None, features: Iterable[str]) -> dict[str, int]:
    chosen = dict(map(_parse_feature, features))
    if METADATA_VERSION in chosen and release_version is not None:
        raise FormatError("give either --release-version or --feature metadata.version")
    metadata_version = chosen.get(METADATA_VERSION, _metadata_version(release_version))
    levels = {**default_levels(metadata_version), **chosen}
    # kraft.version follows from the kind of the quorum.
    levels.pop(KRAFT_VERSION, None)
    try:
        check_levels(levels)
    except KafkaError as error:
        raise FormatError(str(error.message)) from error
    return {name: level for name, level in levels.items() if level}


def _parse_feature(text: str) -> tuple[str, int]:
    name, equals, level = (part.strip() for part in text.partition("="))
    if not equals or not level.isdecimal():
        raise FormatError(f"feature {text!r} is not NAME=LEVEL")
    if name not in SUPPORTED:
        raise FormatError(f"unknown feature {name}; known are {', '.join(sorted(SUPPORTED))}")
    return name, int(level)


def _metadata_version(release_version: str | None) -> int:
    if release_version is None:
        return SUPPORTED[METADATA_VERSION][1]
    # "4.0" stands for the last level of 4.0, as does "4.0.1".
    short = ".".join(release_version.split(".")[:2])
    exact = RELEASES.get(release_version)
    level = exact or max((n for r, n in RELEASES.items() if r.startswith(f"{short}-")), default=0)
    if not level:
        first, last = min(RELEASES), max(RELEASES)
        raise FormatError(f"unknown release {release_version!r}; known are {first} to {last}")
    return level


def _unformatted(settings: Settings, cluster_id: str, ignore_formatted: bool) -> list[str]:
    wanted = []
    for root in dict.fromkeys((*settings.log_dirs, settings.metadata_log_dir)):
        try:
            meta = read_meta_properties(RealDisk(root), root)
        except IdentityError as error:
            raise FormatError(str(error)) from error
        if meta is None:
            wanted.append(root)
            continue
        path = os.path.join(root, FILE_NAME)
        if meta.cluster_id != cluster_id and ignore_formatted:
            raise FormatError(
                f"Invalid cluster.id in: {path}. Expected {cluster_id}, but read {meta.cluster_id}"
            )
        if meta.node_id != settings.node_id and ignore_formatted:
            raise FormatError(
                f"Invalid node.id in: {path}. Expected {settings.node_id}, but read {meta.node_id}"
            )
        if not ignore_formatted:
            raise FormatError(
                f"Log directory {root} is already formatted. Use --ignore-formatted to ignore "
                "this directory and format the others."
            )
    return wanted


def _plan(
    settings: Settings,
    cluster_id: str,
    levels: dict[str, int],
    standalone: bool,
    initial_controllers: str | None,
) -> _Plan:
    directory_id = new_uuid()
    voters: VoterSet | None = None
    if standalone:
        addresses = _own_addresses(settings)
        voters = VoterSet((Voter(settings.node_id, directory_id, addresses),))
    elif initial_controllers is not None:
        voters = parse_initial_controllers(initial_controllers, _listener_name(settings))
        mine = [voter for voter in voters.voters if voter.id == settings.node_id]
        if not mine:
            raise FormatError(f"node {settings.node_id} is not among the initial controllers")
        directory_id = mine[0].directory_id
    return _Plan(
        cluster_id,
        settings.node_id,
        levels,
        voters,
        settings.metadata_log_dir,
        directory_id,
        time.time_ns() // 1_000_000,
    )


def _own_addresses(settings: Settings) -> tuple[VoterAddress, ...]:
    listeners = settings.addresses.advertised_controller_listeners
    if any(listener.port == 0 for listener in listeners):
        raise FormatError("a controller listener needs a fixed port: others must find it again")
    told: Sequence[Listener] = advertise(listeners, {})
    return tuple(VoterAddress(each.name, each.host, each.port) for each in told)


def _listener_name(settings: Settings) -> str:
    return settings.addresses.controller_listeners[0].name


def parse_initial_controllers(text: str, listener: str) -> VoterSet:
    """`ID@HOST:PORT:DIRECTORY_ID`, separated by commas, as kafka-storage takes them."""
    voters = []
    for entry in filter(None, (each.strip() for each in text.split(","))):
        node_id, at, rest = entry.partition("@")
        host, _, tail = rest.rpartition(":")[0].rpartition(":")
        try:
            directory_id = uuid_from_text(rest.rpartition(":")[2])
            if not at or not host or not 0 < int(tail) < 65536:
                raise ValueError("a part is missing")
            address = VoterAddress(listener, host.strip("[]"), int(tail))
            voters.append(Voter(int(node_id), directory_id, (address,)))
        except ValueError as error:
            raise FormatError(
                f"initial controller {entry!r} is not ID@HOST:PORT:DIRECTORY_ID: {error}"
            ) from error
    if not voters or len({voter.id for voter in voters}) != len(voters):
        raise FormatError("name every initial controller once")
    return VoterSet(tuple(voters))


def _format_one(root: str, plan: _Plan) -> str:
    os.makedirs(root, exist_ok=True)
    disk = RealDisk(root)
    is_metadata_dir = root == plan.metadata_dir
    records: list[MetadataRecord] = [feature_record(*item) for item in plan.levels.items()]
    content = b"".join(
        encode_snapshot(
            records, encode_record, epoch=0, now_ms=plan.now_ms, last_contained_log_timestamp=0
        )
    )
    disk.write_atomically(BOOTSTRAP_FILE, content)
    if is_metadata_dir and plan.voters is not None:
        _write_first_voters(disk, plan.voters, plan.now_ms)
    directory_id = plan.metadata_directory_id if is_metadata_dir else new_uuid()
    meta = MetaProperties(plan.cluster_id, plan.node_id, directory_id)
    disk.write_atomically(FILE_NAME, format_meta_properties(meta))
    kind = "data"
    if is_metadata_dir:
        kind = "metadata" if plan.voters is None else "dynamic metadata voter"
    level = plan.levels[METADATA_VERSION]
    release = next(name for name, number in RELEASES.items() if number == level)
    return f"Formatting {kind} directory {root} with metadata.version {release}."


def _write_first_voters(disk: RealDisk, voters: VoterSet, now_ms: int) -> None:
    disk.make_dir(METADATA_FOLDER)
    batches = encode_snapshot(
        (),
        encode_record,
        epoch=0,
        now_ms=now_ms,
        last_contained_log_timestamp=now_ms,
        kraft_version=1,
        voters=voters,
    )
    write_snapshot(disk, METADATA_FOLDER, BOOTSTRAP_ID, batches)
