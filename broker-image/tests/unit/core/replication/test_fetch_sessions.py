"""Sessions of incremental fetch: epochs, slots, what a client is told."""

from itertools import count

import pytest

from pykraft.core.replication.fetch_sessions import (
    EPOCH_MAX,
    FetchSessions,
    SessionPartition,
    update,
)
from pykraft.protocol.errors import ErrorCode, KafkaError


def sessions(slots: int = 2, eviction_ms: int = 1000) -> FetchSessions:
    numbers = count(1)
    return FetchSessions(slots, eviction_ms, lambda: next(numbers))


def wants(offset: int, max_bytes: int = 100) -> SessionPartition:
    return SessionPartition(offset, max_bytes, -1, -1)


def refusal(cache: FetchSessions, session_id: int, epoch: int, uses_ids: bool = True) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        cache.resume(session_id, epoch, uses_ids, now_ms=0)
    return caught.value.code


def test_each_request_of_a_session_must_carry_the_next_epoch() -> None:
    cache = sessions()
    session = cache.open(uses_ids=True, now_ms=0)
    assert session is not None
    assert cache.resume(session.id, 1, True, now_ms=1) is session
    assert refusal(cache, session.id, 1) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert cache.resume(session.id, 2, True, now_ms=2) is session


def test_after_the_largest_epoch_comes_one() -> None:
    cache = sessions()
    session = cache.open(uses_ids=True, now_ms=0)
    assert session is not None
    session.epoch = EPOCH_MAX
    cache.resume(session.id, EPOCH_MAX, True, now_ms=1)
    assert session.epoch == 1


def test_an_unknown_session_is_refused() -> None:
    assert refusal(sessions(), 99, 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_by_id_is_not_gone_on_with_by_name() -> None:
    cache = sessions()
    session = cache.open(uses_ids=True, now_ms=0)
    assert session is not None
    assert refusal(cache, session.id, 1, uses_ids=False) == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_full_cache_serves_without_a_session_until_one_has_been_idle_for_long() -> None:
    cache = sessions(slots=1, eviction_ms=1000)
    first = cache.open(uses_ids=True, now_ms=0)
    assert first is not None
    assert cache.open(uses_ids=True, now_ms=999) is None
    second = cache.open(uses_ids=True, now_ms=1000)
    assert second is not None
    assert cache.evictions == 1
    assert refusal(cache, first.id, 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_the_session_used_last_is_evicted_last() -> None:
    cache = sessions(slots=2, eviction_ms=10)
    first = cache.open(uses_ids=True, now_ms=0)
    second = cache.open(uses_ids=True, now_ms=0)
    assert first is not None
    assert second is not None
    cache.resume(first.id, 1, True, now_ms=5)
    assert cache.open(uses_ids=True, now_ms=20) is not None
    assert first.id in cache.sessions
    assert second.id not in cache.sessions


def test_an_update_changes_what_is_wanted_and_keeps_what_was_told() -> None:
    cache = sessions()
    session = cache.open(uses_ids=False, now_ms=0)
    assert session is not None
    update(session, [(("a", 0), wants(5)), (("a", 1), wants(6))], [])
    session.partitions["a", 0].high_watermark = 42
    update(session, [(("a", 0), wants(7))], [("a", 1)])
    assert list(session.partitions) == [("a", 0)]
    assert session.partitions["a", 0].fetch_offset == 7
    assert session.partitions["a", 0].high_watermark == 42


def test_a_partition_that_gave_data_goes_to_the_end_of_the_queue() -> None:
    cache = sessions()
    session = cache.open(uses_ids=False, now_ms=0)
    assert session is not None
    update(session, [(("a", i), wants(0)) for i in range(3)], [])
    session.served(("a", 0))
    assert list(session.partitions) == [("a", 1), ("a", 2), ("a", 0)]
