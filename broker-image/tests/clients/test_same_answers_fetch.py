"""Fetch with its sessions, ListOffsets, OffsetForLeaderEpoch and DeleteRecords, answered alike."""

from time import monotonic

import pytest
from batches import batch_of
from differential import (
    DELETE_RECORDS,
    FETCH,
    LIST_OFFSETS,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    Stage,
    same_answers,
)
from raw_client import RawClient

VERSIONS = [4, 5, 7, 10, 11, 12, 13, 15, 16, 17, 18]
BATCHES = [batch_of(*[b"%d-%d" % (n, k) for k in range(5)]).encode() for n in range(6)]
BATCH_BYTES = len(BATCHES[0])
BIG = 1 << 20


def partition(offset: int, index: int = 0, **more: int) -> dict[str, int]:
    return {"partition": index, "fetch_offset": offset, "partition_max_bytes": BIG, **more}


def fetch(
    stage: Stage, version: int, topics: dict[str, list[dict[str, int]]], **more: object
) -> dict[str, object]:
    key = "topic" if version < 13 else "topic_id"
    wanted = [
        {key: name if version < 13 else stage.topic_id(name), "partitions": partitions}
        for name, partitions in topics.items()
    ]
    values = {"max_wait": 0, "min_bytes": 0, "max_bytes": BIG, "topics": wanted, **more}
    if version < 15:
        values.setdefault("replica_id", -1)
    return stage.ask(FETCH, version, **values)


def filled(stage: Stage, name: str = "t", **configs: str) -> str:
    topic = stage.topic(name, **configs)
    stage.fill(topic, *BATCHES)
    return topic


@pytest.mark.parametrize("version", VERSIONS)
@same_answers
def test_offsets_within_and_without(stage: Stage, version: int) -> None:
    topic = filled(stage)
    for offset in (0, 5, 7, 29, 30, 31, 1000, -1, -2, 2**62):
        fetch(stage, version, {topic: [partition(offset)]})


@pytest.mark.parametrize("version", VERSIONS)
@same_answers
def test_places_that_do_not_exist(stage: Stage, version: int) -> None:
    topic = filled(stage)
    fetch(stage, version, {"unknown": [partition(0)]})
    fetch(stage, version, {topic: [partition(0, 9)]})
    fetch(stage, version, {topic: [partition(0, -1)]})
    fetch(stage, version, {topic: [partition(0), partition(0, 3)], "unknown": [partition(0)]})
    fetch(stage, version, {})


@pytest.mark.parametrize("version", [4, 12, 18])
@pytest.mark.parametrize("size", [0, 1, 60, BATCH_BYTES - 1, BATCH_BYTES, BATCH_BYTES * 3 + 10])
@same_answers
def test_limits_cut_between_batches_but_the_first_always_comes(
    stage: Stage, version: int, size: int
) -> None:
    topic = filled(stage)
    fetch(stage, version, {topic: [partition(3, partition_max_bytes=size)]})
    fetch(stage, version, {topic: [partition(3)]}, max_bytes=size)


@same_answers
def test_the_request_limit_is_shared_by_its_partitions(stage: Stage) -> None:
    topic = stage.topic(partitions=3)
    for index in range(3):
        stage.fill(topic, *BATCHES, partition=index)
    every = [partition(0, index) for index in range(3)]
    for size in (1, BATCH_BYTES, BATCH_BYTES * 7, BATCH_BYTES * 14):
        fetch(stage, 12, {topic: every}, max_bytes=size)


@same_answers
def test_several_segments(stage: Stage) -> None:
    topic = stage.topic(segment_bytes=str(1 << 20))
    values = [bytes([n]) * 1000 for n in range(200)]
    batches = [batch_of(*values[at : at + 10]).encode() for at in range(0, 200, 10)] * 12
    stage.fill(topic, *batches)
    for offset in (0, 5, 999, 1049, 1050, 1051, 1700, 2399, 2400):
        answer = fetch_unnoted(stage, topic, offset)
        stage.note(answer["responses"][0]["partitions"][0])


def fetch_unnoted(stage: Stage, topic: str, offset: int) -> dict[str, object]:
    wanted = [{"topic": topic, "partitions": [partition(offset, partition_max_bytes=15_000)]}]
    return stage.ask_unnoted(
        FETCH, 12, replica_id=-1, max_wait=0, min_bytes=0, max_bytes=BIG, topics=wanted
    )


@pytest.mark.parametrize("version", [9, 11, 12, 16, 18])
@pytest.mark.parametrize("epoch", [-1, 0, 1, 7, -5])
@same_answers
def test_leader_epochs(stage: Stage, version: int, epoch: int) -> None:
    topic = filled(stage)
    fetch(stage, version, {topic: [partition(0, current_leader_epoch=epoch)]})
    fetch(stage, version, {topic: [partition(99, current_leader_epoch=epoch)]})


@pytest.mark.parametrize("last", [-1, 0, 1, 5, -2, -7])
@same_answers
def test_the_epoch_of_what_was_fetched_last(stage: Stage, last: int) -> None:
    topic = filled(stage)
    for offset in (0, 10, 30):
        fetch(stage, 12, {topic: [partition(offset, last_fetched_epoch=last)]})


@pytest.mark.parametrize("isolation", [0, 1])
@same_answers
def test_isolation(stage: Stage, isolation: int) -> None:
    topic = filled(stage)
    for version in (4, 12):
        for wanted in (partition(0), partition(99), partition(0, 9)):
            fetch(stage, version, {topic: [wanted]}, isolation_level=isolation)


@same_answers
def test_a_rack_has_no_better_replica_here(stage: Stage) -> None:
    fetch(stage, 12, {filled(stage): [partition(0)]}, rack_id="a-rack")


@same_answers
def test_a_fetch_waits_for_its_records(stage: Stage) -> None:
    topic = stage.topic()
    wanted = [{"topic": topic, "partitions": [partition(0)]}]
    stage.client.send(
        FETCH, 12, replica_id=-1, max_wait=15_000, min_bytes=1, max_bytes=BIG, topics=wanted
    )
    with RawClient(stage.node.port) as other:
        data = [{"name": topic, "partition_data": [{"index": 0, "records": BATCHES[0]}]}]
        other.ask(PRODUCE, 9, acks=1, timeout=1000, topic_data=data)
    stage.note(stage.client.answer(FETCH, 12))


@same_answers
def test_a_fetch_that_waits_is_answered_when_its_time_is_over(stage: Stage) -> None:
    topic = filled(stage)
    fetch(stage, 12, {topic: [partition(30)]}, max_wait=100, min_bytes=1)
    fetch(stage, 12, {topic: [partition(0)]}, max_wait=100, min_bytes=BIG)


@same_answers
def test_which_errors_are_told_at_once(stage: Stage) -> None:
    topic = stage.topic(partitions=2)
    other = {"unknown": [partition(0)]}
    for wanted in (
        {topic: [partition(0), partition(99, 1)]},
        {topic: [partition(0), partition(0, 1, current_leader_epoch=9)]},
        # Beside a partition that waits, one that is not known waits with it: a consumer of a
        # deleted topic would otherwise ask without a pause.
        {topic: [partition(0), partition(0, 7)]},
        {topic: [partition(0)], **other},
        {topic: [partition(0, 7)]},
        other,
    ):
        started = monotonic()
        fetch(stage, 12, wanted, max_wait=400, min_bytes=1)
        stage.note("late" if monotonic() - started > 0.3 else "at once")


def session(stage: Stage, version: int, topics: dict[str, list[dict[str, int]]]) -> int:
    answer = fetch(stage, version, topics, session_id=0, session_epoch=0)
    return int(str(answer["session_id"]))


@pytest.mark.parametrize("version", [7, 12, 13, 18])
@same_answers
def test_a_session_tells_only_what_is_new(stage: Stage, version: int) -> None:
    one, two = filled(stage, "one"), filled(stage, "two")
    number = session(stage, version, {one: [partition(30)], two: [partition(30)]})
    fetch(stage, version, {}, session_id=number, session_epoch=1)
    stage.fill(two, BATCHES[0])
    fetch(stage, version, {}, session_id=number, session_epoch=2)
    fetch(stage, version, {two: [partition(35)]}, session_id=number, session_epoch=3)
    fetch(stage, version, {}, session_id=number, session_epoch=4)


@pytest.mark.parametrize("version", [7, 12, 13, 18])
@same_answers
def test_a_session_takes_in_and_forgets_partitions(stage: Stage, version: int) -> None:
    one, two = filled(stage, "one"), filled(stage, "two")
    number = session(stage, version, {one: [partition(0)]})
    fetch(stage, version, {two: [partition(0)]}, session_id=number, session_epoch=1)
    key = "topic" if version < 13 else "topic_id"
    which = {key: one if version < 13 else stage.topic_id(one), "partitions": [0]}
    fetch(stage, version, {}, session_id=number, session_epoch=2, forgotten_topics_data=[which])
    fetch(stage, version, {}, session_id=number, session_epoch=3)


@pytest.mark.parametrize("version", [7, 12, 13])
@same_answers
def test_a_session_with_an_error_in_it(stage: Stage, version: int) -> None:
    one = filled(stage, "one")
    number = session(stage, version, {one: [partition(30), partition(0, 8)]})
    fetch(stage, version, {}, session_id=number, session_epoch=1)
    fetch(stage, version, {one: [partition(77)]}, session_id=number, session_epoch=2)
    fetch(stage, version, {}, session_id=number, session_epoch=3)


@same_answers
def test_a_sessions_topic_of_unknown_id(stage: Stage) -> None:
    one = filled(stage, "one")
    number = session(stage, 13, {one: [partition(30)], "unknown": [partition(0)]})
    fetch(stage, 13, {}, session_id=number, session_epoch=1)


@same_answers
def test_a_session_starts_with_nothing(stage: Stage) -> None:
    fetch(stage, 12, {}, session_id=0, session_epoch=0)


@same_answers
def test_session_numbers_that_are_wrong(stage: Stage) -> None:
    topic = filled(stage)
    number = session(stage, 12, {topic: [partition(30)]})
    fetch(stage, 12, {}, session_id=number, session_epoch=5)
    fetch(stage, 12, {}, session_id=number, session_epoch=1)
    fetch(stage, 12, {}, session_id=number, session_epoch=1)
    fetch(stage, 12, {}, session_id=number ^ 1, session_epoch=2)
    fetch(stage, 12, {topic: [partition(0)]}, session_id=0, session_epoch=3)
    fetch(stage, 12, {topic: [partition(0)]}, session_id=0, session_epoch=-1)
    fetch(stage, 12, {topic: [partition(0)]}, session_id=number ^ 1, session_epoch=0)


@same_answers
def test_a_session_is_closed_and_made_anew(stage: Stage) -> None:
    topic = filled(stage)
    number = session(stage, 12, {topic: [partition(30)]})
    fetch(stage, 12, {topic: [partition(0)]}, session_id=number, session_epoch=-1)
    fetch(stage, 12, {}, session_id=number, session_epoch=1)
    again = session(stage, 12, {topic: [partition(30)]})
    fetch(stage, 12, {topic: [partition(25)]}, session_id=again, session_epoch=0)
    fetch(stage, 12, {}, session_id=again, session_epoch=1)


TIMES = {
    "latest": -1,
    "earliest": -2,
    "max": -3,
    "earliest local": -4,
    "latest tiered": -5,
    "earliest pending": -6,
    "nonsense": -7,
    "zero": 0,
    "before all": 1_600_000_000_000,
    "of the first": 1_700_000_000_000,
    "between": 1_700_000_002_500,
    "after all": 1_700_000_100_000,
}


def ask_offsets(
    stage: Stage, version: int, topic: str, time: int, index: int = 0, **more: int
) -> None:
    wanted = {"partition_index": index, "timestamp": time, **more}
    values: dict[str, object] = {"topics": [{"name": topic, "partitions": [wanted]}]}
    stage.ask(LIST_OFFSETS, version, replica_id=-1, **values)


def dated(stage: Stage) -> str:
    topic = stage.topic("dated")
    base = 1_700_000_000_000
    order = [0, 1, 2, 9, 3, 4]
    batches = [batch_of(b"a", b"b", timestamp_ms=base + 1000 * n).encode() for n in order]
    stage.fill(topic, *batches)
    return topic


@pytest.mark.parametrize("version", range(1, 12))
@same_answers
def test_offsets_by_time(stage: Stage, version: int) -> None:
    topic, empty = dated(stage), stage.topic("empty")
    for time in TIMES.values():
        ask_offsets(stage, version, topic, time)
        ask_offsets(stage, version, empty, time)


@pytest.mark.parametrize("version", [1, 4, 7, 11])
@same_answers
def test_offsets_of_places_that_do_not_exist(stage: Stage, version: int) -> None:
    topic = stage.topic()
    ask_offsets(stage, version, "unknown", -1)
    ask_offsets(stage, version, topic, -1, index=9)
    ask_offsets(stage, version, topic, -1, index=-1)
    twice = [{"partition_index": 0, "timestamp": -1}, {"partition_index": 0, "timestamp": -2}]
    topics = [{"name": topic, "partitions": twice}]
    stage.ask(LIST_OFFSETS, version, replica_id=-1, topics=topics)


@pytest.mark.parametrize("epoch", [-1, 0, 1, 9])
@same_answers
def test_offsets_at_a_leader_epoch(stage: Stage, epoch: int) -> None:
    topic = dated(stage)
    for version in (4, 11):
        for time in (-1, -2, 1_700_000_001_000):
            ask_offsets(stage, version, topic, time, current_leader_epoch=epoch)


@pytest.mark.parametrize("version", [2, 3, 4])
@same_answers
def test_the_end_of_an_epoch(stage: Stage, version: int) -> None:
    topic = dated(stage)
    for epoch in (-1, 0, 1, 5, -2):
        for current in (-1, 0, 4):
            wanted = {"partition": 0, "leader_epoch": epoch, "current_leader_epoch": current}
            places = [{"topic": topic, "partitions": [wanted, {**wanted, "partition": 5}]}]
            stage.ask(OFFSET_FOR_LEADER_EPOCH, version, topics=places)
    unknown = [{"topic": "unknown", "partitions": [{"partition": 0, "leader_epoch": 0}]}]
    stage.ask(OFFSET_FOR_LEADER_EPOCH, version, topics=unknown)


@pytest.mark.parametrize("version", [0, 1, 2])
@same_answers
def test_records_are_deleted_up_to_an_offset(stage: Stage, version: int) -> None:
    topic = filled(stage)
    for offset in (0, 3, 7, 5, 31, -2, -5, 30, -1, 30):
        places = [{"partition_index": 0, "offset": offset}, {"partition_index": 4, "offset": 0}]
        topics = [{"name": topic, "partitions": places}]
        stage.ask(DELETE_RECORDS, version, topics=topics, timeout=5000)
        fetch(stage, 12, {topic: [partition(4)]})
        ask_offsets(stage, 7, topic, -2)
    unknown = [{"name": "unknown", "partitions": [{"partition_index": 0, "offset": 0}]}]
    stage.ask(DELETE_RECORDS, version, topics=unknown, timeout=5000)


@same_answers
def test_records_of_a_compacted_topic_are_not_deleted(stage: Stage) -> None:
    topic = stage.topic(cleanup_policy="compact")
    topics = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 0}]}]
    stage.ask(DELETE_RECORDS, 2, topics=topics, timeout=5000)
