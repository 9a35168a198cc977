"""Where replicas go: over racks first, over the brokers of a rack next, leaders in turn.

The idea is Kafka's striping. Brokers of a rack stand in a circle, racks stand in a circle; each
partition takes one broker per rack, beginning one rack further than the partition before. When
every broker has led one partition, the circles are drawn anew.
A fenced broker may be a follower, never the first choice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from pykraft.protocol.errors import ErrorCode, KafkaError

T = TypeVar("T")


class Dice(Protocol):
    """Chance, injected: random.Random fits."""

    def randrange(self, stop: int, /) -> int: ...


@dataclass(frozen=True, slots=True)
class UsableBroker:
    id: int
    rack: str | None = None
    fenced: bool = False


def _shuffled(values: Sequence[T], dice: Dice) -> list[T]:
    shuffled = list(values)
    for index in range(len(shuffled) - 1, 0, -1):
        other = dice.randrange(index + 1)
        shuffled[index], shuffled[other] = shuffled[other], shuffled[index]
    return shuffled


class _Circle:
    """Brokers in turn; each partition begins one further than the partition before."""

    def __init__(self, brokers: Sequence[int], dice: Dice) -> None:
        self.brokers = _shuffled(brokers, dice)
        self.epoch = 0
        self.index = 0
        self.offset = 0

    def next(self, epoch: int) -> int | None:
        """The next broker of this partition; None once all were given."""
        if not self.brokers:
            return None
        if self.epoch != epoch:
            self.epoch = epoch
            self.index = 0
            self.offset = (self.offset + 1) % len(self.brokers)
        if self.index >= len(self.brokers):
            return None
        broker = self.brokers[(self.index + self.offset) % len(self.brokers)]
        self.index += 1
        return broker


class _Rack:
    def __init__(self, brokers: Sequence[UsableBroker], dice: Dice) -> None:
        ids = sorted(brokers, key=lambda broker: broker.id)
        self.unfenced = _Circle([b.id for b in ids if not b.fenced], dice)
        self.fenced = _Circle([b.id for b in ids if b.fenced], dice)

    def next(self, epoch: int) -> int | None:
        broker = self.unfenced.next(epoch)
        return self.fenced.next(epoch) if broker is None else broker


class _Racks:
    def __init__(self, brokers: Sequence[UsableBroker], dice: Dice) -> None:
        self.by_rack: dict[str, list[UsableBroker]] = {}
        for broker in brokers:
            self.by_rack.setdefault(broker.rack or "", []).append(broker)
        self.dice = dice
        # After so many partitions every broker has led one.
        self.round_length = sum(not broker.fenced for broker in brokers)
        self._begin_round()

    def _begin_round(self) -> None:
        """In another order, so that the followers of one leader differ from round to round."""
        names = _shuffled(sorted(self.by_rack), self.dice)
        self.racks = [_Rack(self.by_rack[name], self.dice) for name in names]
        self.epoch = 0
        self.start = self.dice.randrange(len(self.racks))

    def place(self, replication_factor: int) -> list[int]:
        if self.epoch == self.round_length:
            self._begin_round()
        self.epoch += 1
        self.start = (self.start + 1) % len(self.racks)
        order = self.racks[self.start :] + self.racks[: self.start]
        first = next(b for rack in order if (b := rack.unfenced.next(self.epoch)) is not None)
        replicas = [first]
        # The leader's rack took its turn already, so the others come first.
        turn = next(i for i, rack in enumerate(order) if first in rack.unfenced.brokers) + 1
        while len(replicas) < replication_factor:
            broker = order[turn % len(order)].next(self.epoch)
            if broker is not None:
                replicas.append(broker)
            turn += 1
        return replicas


def place(
    count: int, replication_factor: int, brokers: Sequence[UsableBroker], dice: Dice
) -> list[tuple[int, ...]]:
    """The replicas of `count` partitions. Refuses with INVALID_REPLICATION_FACTOR."""
    if replication_factor < 1:
        raise _refused(replication_factor, "the replication factor must be positive.")
    if all(broker.fenced for broker in brokers):
        raise _refused(replication_factor, "All brokers are currently fenced.")
    if len(brokers) < replication_factor:
        raise _refused(
            replication_factor,
            f"The target replication factor of {replication_factor} cannot be reached because "
            f"only {len(brokers)} broker(s) are registered or some brokers have all their log "
            "directories cordoned.",
        )
    racks = _Racks(brokers, dice)
    return [tuple(racks.place(replication_factor)) for _ in range(count)]


def _refused(replication_factor: int, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {replication_factor} time(s): {why}",
    )
