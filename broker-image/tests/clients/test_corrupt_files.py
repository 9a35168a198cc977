"""Damaged files before a start: the node starts, recovers and serves every acknowledged record.

One topic for each kind of damage, so that one start shows them all; once after a clean stop, once
after SIGKILL. pykraft's alone: Apache Kafka believes an index of garbage, and ends over a broken
checkpoint.
"""

import random
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from batches import base_offsets, batch_of
from bystander import create_topic, fetch, produce
from processes import Node, new_node, now_ms
from raw_client import RawClient

LIST_OFFSETS = 2
# The smallest that Kafka 4 allows; 40 batches make two full segments and one that is written to.
SEGMENT_BYTES = 1024 * 1024
BATCHES, BATCH_BYTES = 40, 64 * 1024
# Now: a broker forgets producers that it has not heard of for a day.
FIRST_TIME_MS = now_ms()
PRODUCER_ID = 4711

Damage = Callable[[Path], None]


def of_every(suffix: str, change: Callable[[bytes], bytes | None]) -> Damage:
    """Damage all files of a kind in a partition's folder; None deletes."""

    def damage(folder: Path) -> None:
        files = sorted(folder.glob(f"*{suffix}"))
        assert files, f"no {suffix} in {folder}"
        for file in files:
            changed = change(file.read_bytes())
            if changed is None:
                file.unlink()
            else:
                file.write_bytes(changed)

    return damage


def to_last_log(change: Callable[[bytes], bytes]) -> Damage:
    def damage(folder: Path) -> None:
        file = max(folder.glob("*.log"))
        file.write_bytes(change(file.read_bytes()))

    return damage


def nothing(data: bytes) -> None:
    del data


def garbage(data: bytes) -> bytes:
    """As long as it was, or a few entries long where it was empty."""
    return random.Random(len(data)).randbytes(len(data) or 240)


DAMAGE: dict[str, Damage] = {
    "index-missing": of_every(".index", nothing),
    "index-torn": of_every(".index", lambda data: data[:5]),
    "index-half": of_every(".index", lambda data: data[: len(data) // 2 + 3]),
    "index-garbage": of_every(".index", garbage),
    "index-zeros": of_every(".index", lambda data: bytes(len(data) + 4096)),
    "timeindex-missing": of_every(".timeindex", nothing),
    "timeindex-torn": of_every(".timeindex", lambda data: data[:5]),
    "timeindex-garbage": of_every(".timeindex", garbage),
    "snapshot-missing": of_every(".snapshot", nothing),
    "snapshot-torn": of_every(".snapshot", lambda data: data[: len(data) // 2]),
    "snapshot-garbage": of_every(".snapshot", garbage),
    "epochs-missing": of_every("leader-epoch-checkpoint", nothing),
}
# Only a process that was killed leaves these.
TAILS: dict[str, Damage] = {
    "log-noise": to_last_log(lambda data: data + garbage(b"x" * 1000)),
    "log-zeros": to_last_log(lambda data: data + bytes(4096)),
    "log-torn-batch": to_last_log(lambda data: data + batch(BATCHES)[:-100]),
    "log-bad-checksum": to_last_log(lambda data: data + batch_of(b"", crc_error=1).encode()),
}
FLIPPED = "log-flipped-byte"


@cache
def batch(number: int) -> bytes:
    return batch_of(
        b"%06d" % number + random.Random(number).randbytes(BATCH_BYTES),
        timestamp_ms=FIRST_TIME_MS + number,
        producer_id=PRODUCER_ID,
        producer_epoch=0,
        base_sequence=number,
    ).encode()


def write(node: Node, topics: list[str]) -> None:
    batches = [batch(number) for number in range(BATCHES)]
    for topic in topics:
        create_topic(node.port, topic, segment_bytes=str(SEGMENT_BYTES))
        with RawClient(node.port) as client:
            for number, records in enumerate(batches):
                answer = produce(client, topic, records)
                assert (answer["error_code"], answer["base_offset"]) == (0, number), answer


def assert_served(node: Node, topic: str) -> None:
    """Every record, from every offset, and by its time."""
    with RawClient(node.port) as client:
        for number in range(BATCHES):
            answer = fetch(client, topic, number, max_bytes=BATCH_BYTES)
            assert answer["error_code"] == 0, f"{topic} at {number}: {answer['error_code']}"
            records = bytes(answer["records"])
            assert base_offsets(records)[:1] == [number], f"{topic} at {number}"
            assert records[16 : len(batch(number))] == batch(number)[16:], f"{topic} at {number}"
            assert offset_of_time(client, topic, FIRST_TIME_MS + number) == number, topic
        assert fetch(client, topic, 0)["high_watermark"] == BATCHES


def offset_of_time(client: RawClient, topic: str, time_ms: int) -> int:
    partitions = [{"partition_index": 0, "timestamp": time_ms}]
    wanted = [{"name": topic, "partitions": partitions}]
    answer = client.ask(LIST_OFFSETS, 6, replica_id=-1, topics=wanted)
    offset: int = answer["topics"][0]["partitions"][0]["offset"]
    return offset


def assert_deduplicates(node: Node, topic: str) -> None:
    with RawClient(node.port) as client:
        again = produce(client, topic, batch(BATCHES - 1))
        assert (again["error_code"], again["base_offset"]) == (0, BATCHES - 1), f"{topic}: {again}"
        following = produce(client, topic, batch(BATCHES))
        assert (following["error_code"], following["base_offset"]) == (0, BATCHES), topic


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    # A checkpoint from time to time, so that a kill finds one that is older than the log.
    settings = {"log.flush.offset.checkpoint.interval.ms": "1000"}
    with new_node("pykraft", tmp_path / "node", settings) as node:
        yield node.start()


def test_after_a_clean_stop_damaged_files_beside_the_log_are_made_again(node: Node) -> None:
    write(node, list(DAMAGE))
    node.stop()
    for topic, damage in DAMAGE.items():
        damage(node.data / f"{topic}-0")
    node.start()
    for topic in DAMAGE:
        assert_served(node, topic)
    node.stop()


def test_after_a_kill_damaged_files_and_torn_tails_are_made_good(node: Node) -> None:
    topics = DAMAGE | TAILS
    write(node, list(topics))
    node.kill()
    for topic, damage in topics.items():
        if list((node.data / f"{topic}-0").glob(f"*{suffix_of(topic)}*")):
            damage(node.data / f"{topic}-0")
    node.start()
    for topic in topics:
        assert_served(node, topic)
        assert_deduplicates(node, topic)
    node.stop()


CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
)
BROKEN: dict[str, bytes | None] = {
    "missing": None,
    "empty": b"",
    "cut": b"0\n2\nwhole 0 4",
    "garbage": b"\xff\x00 no checkpoint\n" * 5,
}


@pytest.mark.parametrize("how", BROKEN)
def test_after_a_kill_broken_checkpoints_and_a_torn_metadata_log_lose_nothing(
    node: Node, how: str
) -> None:
    write(node, ["whole"])
    node.kill()
    for name in CHECKPOINTS:
        file = node.data / name
        file.unlink(missing_ok=True)
        content = BROKEN[how]
        if content is not None:
            file.write_bytes(content)
    to_last_log(lambda data: data + batch(0)[:-100])(node.data / "__cluster_metadata-0")
    node.start()
    assert_served(node, "whole")
    assert_deduplicates(node, "whole")
    create_topic(node.port, "another")
    node.stop()


def suffix_of(topic: str) -> str:
    """A node that was killed may not have written all of them yet."""
    kind = topic.partition("-")[0]
    return "leader-epoch-checkpoint" if kind == "epochs" else f".{kind}"


def test_a_flipped_byte_in_an_old_segment_costs_its_batch_and_nothing_else(node: Node) -> None:
    write(node, [FLIPPED, "whole"])
    node.stop()
    hit = 7
    flip_in_first_segment(node.data / f"{FLIPPED}-0", hit * len(batch(0)) + 1000)
    node.start()
    assert_served(node, "whole")
    with RawClient(node.port) as client:
        for number in range(BATCHES):
            answer = fetch(client, FLIPPED, number, max_bytes=BATCH_BYTES)
            if number != hit:
                assert bytes(answer["records"])[16 : len(batch(0))] == batch(number)[16:], number
        assert produce(client, FLIPPED, batch(BATCHES))["error_code"] == 0
    node.stop()


def flip_in_first_segment(folder: Path, position: int) -> None:
    file = min(folder.glob("*.log"))
    data = bytearray(file.read_bytes())
    data[position] ^= 0x10
    file.write_bytes(data)
