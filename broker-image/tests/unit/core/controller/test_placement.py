import random
from collections import Counter

import pytest

from pykraft.core.controller.placement import UsableBroker, place
from pykraft.protocol.errors import ErrorCode, KafkaError


def brokers(racks: str, fenced: frozenset[int] = frozenset()) -> list[UsableBroker]:
    return [UsableBroker(i, rack, i in fenced) for i, rack in enumerate(racks)]


@pytest.mark.parametrize("seed", range(20))
def test_replicas_of_a_partition_are_in_different_racks_and_leaders_take_turns(seed: int) -> None:
    usable = brokers("aabbcc")
    placed = place(60, 3, usable, random.Random(seed))
    for replicas in placed:
        assert len({usable[broker].rack for broker in replicas}) == 3
    leaders = Counter(replicas[0] for replicas in placed)
    assert set(leaders.values()) == {10}
    hosted = Counter(broker for replicas in placed for broker in replicas)
    assert set(hosted.values()) == {30}


@pytest.mark.parametrize("seed", range(20))
def test_more_replicas_than_racks_use_every_rack_before_one_twice(seed: int) -> None:
    usable = brokers("aaabbb")
    for replicas in place(30, 4, usable, random.Random(seed)):
        assert len(set(replicas)) == 4
        assert Counter(usable[broker].rack for broker in replicas) == {"a": 2, "b": 2}


@pytest.mark.parametrize("seed", range(20))
def test_a_fenced_broker_never_comes_first(seed: int) -> None:
    usable = brokers("abc", fenced=frozenset((1,)))
    placed = place(30, 3, usable, random.Random(seed))
    assert all(replicas[0] != 1 for replicas in placed)
    assert all(set(replicas) == {0, 1, 2} for replicas in placed)


def test_the_followers_of_one_leader_differ() -> None:
    usable = [UsableBroker(i) for i in range(4)]
    placed = place(40, 2, usable, random.Random(3))
    pairs = {replicas for replicas in placed if replicas[0] == 0}
    assert len(pairs) > 1


def test_the_same_dice_place_the_same() -> None:
    usable = brokers("aabbc")
    first = place(20, 3, usable, random.Random(5))
    assert first == place(20, 3, usable, random.Random(5))


@pytest.mark.parametrize(
    ("usable", "replicas"),
    [(brokers("a"), 2), (brokers("a", frozenset((0,))), 1), ([], 1), (brokers("a"), 0)],
)
def test_what_cannot_be_placed_is_refused(usable: list[UsableBroker], replicas: int) -> None:
    with pytest.raises(KafkaError) as refused:
        place(1, replicas, usable, random.Random(1))
    assert refused.value.code == ErrorCode.INVALID_REPLICATION_FACTOR
