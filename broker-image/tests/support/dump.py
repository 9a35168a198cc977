"""DumpLogSegments over whole folders. Every line that it prints must be of a kind that we know:
what it says of an error it says in lines of other kinds, so that none can be overlooked."""

import json
import re
from pathlib import Path

from apache import run_tool

DUMP = "org.apache.kafka.tools.DumpLogSegments"
GOOD_LINES = re.compile(
    r"Dumping \S+$"
    r"|Log starting offset: \d+$"
    r"|Snapshot end offset: \d+, epoch: \d+$"
    r"|baseOffset: .* isvalid: true$"
    r"|\| offset: \d+ .*$"
    r"|offset: \d+ position: \d+ *$"
    r"|timestamp: -?\d+ offset: \d+ *$"
    r"|producerId: \d+ producerEpoch: .*$"
    r"|\S+ is empty\.$"
    r"|\S+ passed sanity check\.$"
    r"|$"
)


def dump_folder(folder: Path) -> list[str]:
    """Everything in the partitions' folders; returns the lines that are not known to be good."""
    kinds = ("*.log", "*.index", "*.timeindex", "*.snapshot", "*.txnindex")
    files = [
        str(file)
        for partition in sorted(folder.iterdir())
        if partition.is_dir() and not partition.name.endswith("-delete")
        if partition.name != "__cluster_metadata-0"
        for kind in kinds
        for file in sorted(partition.glob(kind))
    ]
    assert len(files) > 20, files
    lines = run_tool(DUMP, "--deep-iteration", "--files", ",".join(files)).splitlines()
    assert sum(line.startswith("Dumping ") for line in lines) == len(files)
    return strange(lines)


def check_indexes(folder: Path) -> list[str]:
    """The check that Kafka makes of every index at its start."""
    indexes = sorted([*folder.glob("*/*.index"), *folder.glob("*/*.timeindex")])
    files = ",".join(str(file) for file in indexes)
    return strange(run_tool(DUMP, "--index-sanity-check", "--files", files).splitlines())


def dump_metadata(folder: Path) -> tuple[list[dict[str, object]], list[str]]:
    """The metadata records of the log and its snapshots, and the lines that are not good."""
    partition = folder / "__cluster_metadata-0"
    files = sorted([*partition.glob("*.log"), *partition.glob("*.checkpoint")])
    joined = ",".join(str(file) for file in files)
    lines = run_tool(DUMP, "--cluster-metadata-decoder", "--files", joined).splitlines()
    payloads = [line.split(" payload: ", 1)[1] for line in lines if " payload: " in line]
    return [json.loads(payload) for payload in payloads], strange(lines)


def strange(lines: list[str]) -> list[str]:
    return [line for line in lines if not GOOD_LINES.match(line)]
