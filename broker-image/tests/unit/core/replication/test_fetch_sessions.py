"""Sessions of incremental fetch: epochs, slots, what a client is told."""

from itertools import count

import pytest

from pykraft.core.replication import fetch_sessions
from pykraft.core.replication.fetch_sessions import (
    EPOCH_MAX,
    FetchSession,
    FetchSessions,
    PartitionKey,
    SessionPartition,
)
from pykraft.protocol.errors import ErrorCode, KafkaError


def sessions(slots: int = 2, eviction_ms: int = 1000) -> FetchSessions:
    numbers = count(1)
    return FetchSessions(slots, eviction_ms, lambda: next(numbers))


def wants(offset: int, max_bytes: int = 100) -> SessionPartition:
    return SessionPartition(offset, max_bytes, -1, -1)


def all_of(*keys: PartitionKey) -> dict[PartitionKey, SessionPartition]:
    return {key: wants(0) for key in keys}


def opened(
    cache: FetchSessions, *keys: PartitionKey, uses_ids: bool = False, now_ms: int = 0
) -> FetchSession:
    session = cache.open(all_of(*keys), uses_ids=uses_ids, now_ms=now_ms)
    assert session is not None
    return session


def refusal(cache: FetchSessions, session_id: int, epoch: int, uses_ids: bool = True) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        cache.resume(session_id, epoch, uses_ids=uses_ids, now_ms=0)
    return caught.value.code


def test_each_request_of_a_session_must_carry_the_next_epoch() -> None:
    cache = sessions()
    session = opened(cache, uses_ids=True, now_ms=0)
    assert cache.resume(session.id, 1, uses_ids=True, now_ms=1) is session
    assert refusal(cache, session.id, 1) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert cache.resume(session.id, 2, uses_ids=True, now_ms=2) is session


def test_after_the_largest_epoch_comes_one() -> None:
    cache = sessions()
    session = opened(cache, uses_ids=True, now_ms=0)
    session.epoch = EPOCH_MAX
    cache.resume(session.id, EPOCH_MAX, uses_ids=True, now_ms=1)
    assert session.epoch == 1


def test_an_unknown_session_is_refused() -> None:
    assert refusal(sessions(), 99, 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_by_id_is_not_gone_on_with_by_name() -> None:
    cache = sessions()
    session = opened(cache, uses_ids=True)
    assert refusal(cache, session.id, 1, uses_ids=False) == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_wrong_epoch_is_told_before_names_in_place_of_ids() -> None:
    cache = sessions()
    session = opened(cache, uses_ids=True)
    assert refusal(cache, session.id, 9, uses_ids=False) == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_full_cache_serves_without_a_session_until_one_has_been_idle_for_long() -> None:
    cache = sessions(slots=1, eviction_ms=1000)
    first = opened(cache, uses_ids=True, now_ms=0)
    assert cache.open({}, uses_ids=True, now_ms=999) is None
    opened(cache, uses_ids=True, now_ms=1000)
    assert cache.evictions == 1
    assert refusal(cache, first.id, 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_the_session_used_last_is_evicted_last() -> None:
    cache = sessions(slots=2, eviction_ms=10)
    first = opened(cache, uses_ids=True, now_ms=0)
    second = opened(cache, uses_ids=True, now_ms=0)
    cache.resume(first.id, 1, uses_ids=True, now_ms=5)
    assert cache.open({}, uses_ids=True, now_ms=20) is not None
    assert first.id in cache.sessions
    assert second.id not in cache.sessions


def test_an_update_changes_what_is_wanted_and_keeps_what_was_told() -> None:
    cache = sessions()
    session = opened(cache, ("a", 0), ("a", 1))
    session.partitions["a", 0].high_watermark = 42
    cache.update(session, {("a", 0): wants(7)}, [("a", 1)])
    assert list(session.partitions) == [("a", 0)]
    assert session.partitions["a", 0].fetch_offset == 7
    assert session.partitions["a", 0].high_watermark == 42


def test_a_partition_that_gave_data_goes_to_the_end_of_the_queue() -> None:
    session = opened(sessions(), ("a", 0), ("a", 1), ("a", 2))
    session.served(("a", 0))
    assert list(session.partitions) == [("a", 1), ("a", 2), ("a", 0)]


@pytest.fixture
def three_partitions_at_most(monkeypatch: pytest.MonkeyPatch) -> FetchSessions:
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX", 3)
    return sessions(slots=10, eviction_ms=1000)


def test_no_session_is_opened_for_more_partitions_than_there_is_room_for(
    three_partitions_at_most: FetchSessions,
) -> None:
    cache = three_partitions_at_most
    opened(cache, ("a", 0), ("a", 1))
    two = all_of(("b", 0), ("b", 1))
    assert cache.open(two, uses_ids=False, now_ms=999) is None
    assert cache.open(two, uses_ids=False, now_ms=1000) is not None
    assert cache.evictions == 1
    assert cache.partitions == 2


def test_nobody_is_evicted_for_a_session_that_finds_no_room_anyway(
    three_partitions_at_most: FetchSessions,
) -> None:
    cache = three_partitions_at_most
    opened(cache, ("a", 0))
    four = all_of(*(("b", index) for index in range(4)))
    assert cache.open(four, uses_ids=False, now_ms=5000) is None
    assert cache.evictions == 0


def test_a_session_that_grows_past_the_room_is_closed(
    three_partitions_at_most: FetchSessions,
) -> None:
    cache = three_partitions_at_most
    opened(cache, ("a", 0), ("a", 1))
    session = opened(cache, ("b", 0))
    with pytest.raises(KafkaError) as caught:
        cache.update(session, all_of(("b", 1)), [])
    assert caught.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert session.id not in cache.sessions
    assert cache.partitions == 2


def test_what_a_session_forgets_makes_room_for_others(
    three_partitions_at_most: FetchSessions,
) -> None:
    cache = three_partitions_at_most
    session = opened(cache, ("a", 0), ("a", 1), ("a", 2))
    cache.update(session, {}, [("a", 1), ("a", 2), ("a", 7)])
    opened(cache, ("b", 0), ("b", 1))
    cache.close(session.id)
    assert cache.partitions == 2
