from pathlib import Path

import pytest

from pykraft.core.raft.metadata_log import FOLDER
from pykraft.core.raft.snapshot import BOOTSTRAP_ID, decode_snapshot
from pykraft.ids import uuid_to_text
from pykraft.protocol.metadata_records import FeatureLevelRecord
from pykraft.runtime.format import FormatError, format_directories, parse_initial_controllers
from pykraft.runtime.identity import IdentityError, load_identity, new_uuid
from pykraft.settings import Settings

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
DIRECTORY = uuid_to_text(new_uuid())


def settings(path: Path, **changed: str) -> Settings:
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "log.dirs": f"{path}/a,{path}/b",
    }
    names = {key.replace("_", "."): value for key, value in changed.items()}
    return Settings.from_properties({**properties, **names})


def static(path: Path) -> Settings:
    return settings(path, controller_quorum_voters="1@127.0.0.1:9093")


def levels(path: Path) -> dict[str, int]:
    records = decode_snapshot(BOOTSTRAP_ID, (path / "bootstrap.checkpoint").read_bytes()).records
    assert all(isinstance(record, FeatureLevelRecord) for record in records)
    return {r.name: r.feature_level for r in records if isinstance(r, FeatureLevelRecord)}


def test_a_standalone_node_gets_all_files_and_voters_only_in_its_metadata_directory(
    tmp_path: Path,
) -> None:
    lines = format_directories(settings(tmp_path), CLUSTER, standalone=True)
    assert lines == [
        f"Formatting dynamic metadata voter directory {tmp_path}/a with metadata.version 4.3-IV0.",
        f"Formatting data directory {tmp_path}/b with metadata.version 4.3-IV0.",
    ]
    identity = load_identity([f"{tmp_path}/a", f"{tmp_path}/b"], 1)
    assert identity.cluster_id == CLUSTER
    first, second = identity.directory_ids.values()
    assert first != second
    snapshot = tmp_path / "a" / FOLDER / BOOTSTRAP_ID.file_name
    decoded = decode_snapshot(BOOTSTRAP_ID, snapshot.read_bytes())
    assert decoded.kraft_version == 1
    assert decoded.voters is not None
    (voter,) = decoded.voters.voters
    assert (voter.id, voter.directory_id) == (1, first)
    assert [(a.listener, a.host, a.port) for a in voter.addresses] == [
        ("CONTROLLER", "127.0.0.1", 9093)
    ]
    assert not (tmp_path / "b" / FOLDER).exists()


def test_the_files_are_as_kafka_writes_them(tmp_path: Path) -> None:
    format_directories(settings(tmp_path), CLUSTER, standalone=True)
    lines = (tmp_path / "a" / "meta.properties").read_text().splitlines()
    keys = [line.split("=")[0] for line in lines[2:]]
    assert lines[0] == "#"
    assert keys == ["node.id", "directory.id", "version", "cluster.id"]
    assert "version=1" in lines
    # The size that kafka-storage's file has with the same features.
    assert (tmp_path / "a" / "bootstrap.checkpoint").stat().st_size == 411
    assert levels(tmp_path / "a") == {
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    }


def test_a_static_quorum_has_no_voters_on_disk(tmp_path: Path) -> None:
    format_directories(static(tmp_path), CLUSTER)
    assert not (tmp_path / "a" / FOLDER).exists()
    with pytest.raises(FormatError, match=r"controller\.quorum\.voters is set"):
        format_directories(static(tmp_path), CLUSTER, standalone=True)


def test_a_controller_without_voters_must_be_told_how_its_quorum_begins(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="--standalone"):
        format_directories(settings(tmp_path), CLUSTER)
    format_directories(settings(tmp_path), CLUSTER, no_initial_controllers=True)


def test_initial_controllers_bring_their_directory_ids(tmp_path: Path) -> None:
    other = uuid_to_text(new_uuid())
    text = f"1@localhost:9093:{DIRECTORY},2@[::1]:9093:{other}"
    format_directories(settings(tmp_path), CLUSTER, initial_controllers=text)
    identity = load_identity([f"{tmp_path}/a"], 1)
    assert uuid_to_text(identity.directory_ids[f"{tmp_path}/a"]) == DIRECTORY
    voters = parse_initial_controllers(text, "CONTROLLER")
    assert [(v.id, v.addresses[0].host, v.addresses[0].port) for v in voters.voters] == [
        (1, "localhost", 9093),
        (2, "::1", 9093),
    ]


@pytest.mark.parametrize(
    "text", ["1@h:9093", f"1@h:{DIRECTORY}", f"h:9093:{DIRECTORY}", f"x@h:9093:{DIRECTORY}", ""]
)
def test_initial_controllers_that_lack_a_part_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(FormatError):
        format_directories(settings(tmp_path), CLUSTER, initial_controllers=text)


def test_what_is_formatted_stays_as_it_is(tmp_path: Path) -> None:
    format_directories(settings(tmp_path), CLUSTER, standalone=True)
    before = (tmp_path / "a" / "meta.properties").read_bytes()
    with pytest.raises(FormatError, match="is already formatted"):
        format_directories(settings(tmp_path), CLUSTER, standalone=True)
    (tmp_path / "b" / "meta.properties").unlink()
    (line,) = format_directories(
        settings(tmp_path), CLUSTER, standalone=True, ignore_formatted=True
    )
    assert f"{tmp_path}/b" in line
    assert format_directories(
        settings(tmp_path), CLUSTER, standalone=True, ignore_formatted=True
    ) == ["All of the log directories are already formatted."]
    assert (tmp_path / "a" / "meta.properties").read_bytes() == before


def test_another_clusters_directory_is_not_taken(tmp_path: Path) -> None:
    format_directories(settings(tmp_path), CLUSTER, standalone=True)
    with pytest.raises(FormatError, match=rf"Expected other, but read {CLUSTER}"):
        format_directories(settings(tmp_path), "other", standalone=True, ignore_formatted=True)


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("3.8", {"metadata.version": 20}),
        ("3.7-IV2", {"metadata.version": 17}),
        ("4.0", {"metadata.version": 25, "group.version": 1, "transaction.version": 2}),
    ],
)
def test_a_release_stands_for_its_features(
    tmp_path: Path, release: str, expected: dict[str, int]
) -> None:
    format_directories(static(tmp_path), CLUSTER, release_version=release)
    assert levels(tmp_path / "a") == expected


def test_a_feature_can_be_chosen(tmp_path: Path) -> None:
    chosen = ["metadata.version=25", "group.version=0"]
    format_directories(static(tmp_path), CLUSTER, features=chosen)
    assert levels(tmp_path / "a") == {"metadata.version": 25, "transaction.version": 2}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"release_version": "2.8"}, "unknown release"),
        ({"features": ["group.version=7"]}, "group.version at level 7"),
        ({"features": ["nothing=1"]}, "unknown feature nothing"),
        ({"features": ["group.version"]}, "NAME=LEVEL"),
        (
            {
                "release_version": "3.8",
                "features": ["eligible.leader.replicas.version=1"],
            },
            "depends on metadata.version level 23",
        ),
    ],
)
def test_what_no_kafka_could_start_with_is_refused(
    tmp_path: Path, options: dict[str, object], message: str
) -> None:
    with pytest.raises(FormatError, match=message):
        format_directories(static(tmp_path), CLUSTER, **options)  # type: ignore[arg-type]
    assert not (tmp_path / "a").exists()


def test_a_dynamic_quorum_needs_a_release_that_has_it(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"3\.9"):
        format_directories(settings(tmp_path), CLUSTER, standalone=True, release_version="3.8")


# Reading it again


def test_an_unformatted_directory_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(IdentityError, match="run pykraft format"):
        load_identity([f"{tmp_path}/a"], 1)


def test_another_nodes_directory_is_refused(tmp_path: Path) -> None:
    format_directories(settings(tmp_path), CLUSTER, standalone=True)
    with pytest.raises(IdentityError, match=r"node\.id is 1, but this node is configured as 2"):
        load_identity([f"{tmp_path}/a"], 2)


def test_directories_of_two_clusters_are_refused(tmp_path: Path) -> None:
    format_directories(static(tmp_path / "one"), CLUSTER)
    format_directories(static(tmp_path / "two"), "another")
    with pytest.raises(IdentityError, match="different clusters"):
        load_identity([f"{tmp_path}/one/a", f"{tmp_path}/two/a"], 1)


@pytest.mark.parametrize(
    "text", ["", "version=1\n", "version=1\ncluster.id=x\nnode.id=one\n", "version=7\n"]
)
def test_a_damaged_identity_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(IdentityError, match=r"meta\.properties"):
        load_identity([str(tmp_path)], 1)


def test_a_directory_of_a_kafka_before_3_7_gets_an_id(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    path.write_text("#\nnode.id=1\nversion=1\ncluster.id=x\n")
    given = load_identity([str(tmp_path)], 1)
    assert load_identity([str(tmp_path)], 1) == given
    assert "directory.id=" in path.read_text()
