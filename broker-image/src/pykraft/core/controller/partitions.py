"""Who leads a partition, who is in its ISR, and who may lead it next.

With eligible leader replicas (KIP-966) the ISR may run empty: what leaves it below min ISR is kept
as the ELR, whose members have every committed record and can lead cleanly. A broker that comes back
after an unclean shutdown may have lost its tail, so it leaves the ELR; the last leader of all can
still be chosen then, as an unclean election, and the partition is marked as recovering.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum

from pykraft.core.controller.image import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    RECOVERING,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from pykraft.core.controller.records import MV_3_6_IV0_NO_BUMP_ON_SHRINK
from pykraft.ids import LOST_DIR, Uuid
from pykraft.protocol.metadata_records import MetadataRecord, PartitionChangeRecord

MIN_ISR = "min.insync.replicas"


class Election(Enum):
    # Keep the leader if it may lead, else take the first that may.
    ONLINE = "online"
    # As ONLINE, but a replica that may lack committed records is better than no leader.
    UNCLEAN = "unclean"


@dataclass(slots=True)
class PartitionChange:
    """One change of one partition: `record` is what brings it about, or None if nothing changes."""

    topic_id: Uuid
    index: int
    old: PartitionImage
    may_lead: Callable[[int], bool]
    min_isr: int
    elr_enabled: bool
    metadata_version: int
    election: Election = Election.ONLINE
    isr: tuple[int, ...] = ()
    unclean_shutdown: frozenset[int] = frozenset()
    recovery_state: int = 0
    elr: tuple[int, ...] = field(init=False, default=())
    last_known_elr: tuple[int, ...] = field(init=False, default=())
    leader: int = field(init=False, default=NO_LEADER_CHANGE)

    def record(self) -> PartitionChangeRecord | None:
        self._keep_who_left_the_isr()
        self._elect()
        self._remember_the_last_leader()
        old = self.old
        if not self.isr and not self.elr_enabled:
            # Without ELR the last member of the ISR stays in it: nobody else has all records.
            self.isr = old.isr
        needs_bump = self.metadata_version < MV_3_6_IV0_NO_BUMP_ON_SHRINK and self._shrinks()
        if needs_bump and self.leader == NO_LEADER_CHANGE:
            self.leader = old.leader
        record = PartitionChangeRecord(
            partition_id=self.index,
            topic_id=self.topic_id,
            isr=_if_new(self.isr, old.isr),
            leader=self.leader,
            leader_recovery_state=-1
            if self.recovery_state == old.recovery_state
            else self.recovery_state,
            eligible_leader_replicas=_if_new(self.elr, old.elr),
            last_known_elr=_if_new(self.last_known_elr, old.last_known_elr),
        )
        nothing = PartitionChangeRecord(partition_id=self.index, topic_id=self.topic_id)
        return None if record == nothing else record

    def _shrinks(self) -> bool:
        return bool(set(self.old.isr) - set(self.isr))

    def _keep_who_left_the_isr(self) -> None:
        self.last_known_elr = self.old.last_known_elr
        if not self.elr_enabled:
            self.elr = ()
            return
        if len(self.isr) >= min(self.min_isr, len(self.old.replicas)):
            self.elr = ()
            return
        known = sorted(set(self.old.elr) | set(self.old.isr))
        lost = self.unclean_shutdown | set(self.isr)
        self.elr = tuple(replica for replica in known if replica not in lost)

    def _elect(self) -> None:
        leader, is_clean = self._choose()
        if leader == self.old.leader:
            return
        self.leader = leader
        if leader == NO_LEADER or leader in self.isr:
            return
        # Chosen from the ELR, or uncleanly: the others have to catch up with this one.
        self.isr = (leader,)
        self.elr = tuple(replica for replica in self.elr if is_clean and replica != leader)
        if not is_clean:
            self.recovery_state = RECOVERING

    def _choose(self) -> tuple[int, bool]:
        if self._is_eligible(self.old.leader):
            return self.old.leader, True
        for replica in self.old.replicas:
            if self._is_eligible(replica):
                return replica, True
        last_known = self.old.last_known_elr
        if self.elr_enabled and len(last_known) == 1 and self.may_lead(last_known[0]):
            return last_known[0], False
        if self.election is Election.UNCLEAN:
            for replica in self.old.replicas:
                if self.may_lead(replica):
                    return replica, False
        return NO_LEADER, True

    def _is_eligible(self, replica: int) -> bool:
        return (replica in self.isr or replica in self.elr) and self.may_lead(replica)

    def _remember_the_last_leader(self) -> None:
        if not self.elr_enabled:
            self.last_known_elr = ()
        elif self.leader == NO_LEADER:
            self.last_known_elr = (self.old.leader,)
        elif self.leader >= 0 or self.old.leader != NO_LEADER:
            self.last_known_elr = ()


def _if_new(new: tuple[int, ...], old: tuple[int, ...]) -> tuple[int, ...] | None:
    return None if new == old else new


class Leaders:
    """Changes of leaders and ISRs that follow from what happens to a broker."""

    def __init__(
        self,
        image: MetadataImage,
        min_isr_of: Callable[[str], int],
        unclean_allowed: Callable[[str], bool],
    ) -> None:
        self.image = image
        self.min_isr_of = min_isr_of
        self.unclean_allowed = unclean_allowed

    def on_fenced(self, broker: int) -> list[MetadataRecord]:
        """Fenced, shutting down, unregistered: it leaves every ISR and leads nothing."""
        return self._updates(lambda p: broker in p.isr, removed=broker)

    def on_unclean_shutdown(self, broker: int) -> list[MetadataRecord]:
        """It came back without a word of its last epoch: its logs may have lost their tails."""
        return self._updates(lambda p: broker in p.isr or broker in p.elr, lost=broker)

    def on_unfenced(self, broker: int) -> list[MetadataRecord]:
        return self._updates(lambda p: p.leader == NO_LEADER, added=broker)

    def on_directories_lost(self, broker: int, lost: Iterable[Uuid]) -> list[MetadataRecord]:
        gone = frozenset(lost)
        return self._updates(
            lambda p: broker in p.isr and directory_of(p, broker) in gone, removed=broker
        )

    def _updates(
        self,
        concerns: Callable[[PartitionImage], bool],
        removed: int = NO_LEADER,
        added: int = NO_LEADER,
        lost: int = NO_LEADER,
    ) -> list[MetadataRecord]:
        records: list[MetadataRecord] = []
        for topic, index, partition in self.image.partitions():
            if not concerns(partition):
                continue
            change = self.change(topic, index, added=added, excluded={removed, lost})
            change.isr = tuple(r for r in partition.isr if r not in (removed, lost))
            if lost != NO_LEADER:
                change.unclean_shutdown = frozenset((lost,))
            record = change.record()
            if record is not None:
                records.append(record)
        return records

    def change(
        self,
        topic: TopicImage,
        index: int,
        *,
        added: int = NO_LEADER,
        excluded: Iterable[int] = (),
    ) -> PartitionChange:
        """A change that changes nothing yet; `added` counts as active, `excluded` do not."""
        partition = topic.partitions[index]
        excluded = frozenset(excluded)

        def may_lead(replica: int) -> bool:
            if replica in excluded or directory_of(partition, replica) == LOST_DIR:
                return False
            broker = self.image.brokers.get(replica)
            return replica == added or (broker is not None and broker.is_active)

        return PartitionChange(
            topic.id,
            index,
            partition,
            may_lead,
            self.min_isr_of(topic.name),
            self.image.elr_enabled,
            self.image.metadata_version,
            Election.UNCLEAN if self.unclean_allowed(topic.name) else Election.ONLINE,
            isr=partition.isr,
            recovery_state=partition.recovery_state,
        )


def directory_of(partition: PartitionImage, replica: int) -> Uuid | None:
    try:
        return partition.directories[partition.replicas.index(replica)]
    except (ValueError, IndexError):
        return None
