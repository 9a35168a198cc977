"""What a log remembers of idempotent producers, and the `.snapshot` files that keep it.

Per producer the five last batches are known (a client has at most five in flight), so that one that
is sent again is answered with the offset it already has. A snapshot holds only the last batch of
each, as Kafka's does.

    snapshot: version i16 = 1, crc32c u32 over what follows, count i32, then per producer
    id i64, epoch i16, last sequence i32, last offset i64, offset delta i32, timestamp i64,
    coordinator epoch i32, first offset of the open transaction i64 (-1: none)
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

import crc32c

from pykraft.core.log.refusals import RefusedBatchError
from pykraft.protocol.errors import ErrorCode
from pykraft.records.batch import (
    CONTROL,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    TRANSACTIONAL,
    BatchHeader,
)

BATCHES_KEPT = 5
SEQUENCE_MASK = 0x7FFFFFFF
EXPIRATION_MS = 86_400_000

VERSION = 1
PREFIX = struct.Struct(">hIi")
ENTRY = struct.Struct(">qhiqiqiq")
CRC_END = 6


class ProducedBatch(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MASK


class Producer:
    """Invariant: `batches` are of `epoch`, oldest first, at most five."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp_ms",
        "transaction_first_offset",
    )

    def __init__(self, epoch: int = NO_PRODUCER_EPOCH) -> None:
        self.epoch = epoch
        self.batches: list[ProducedBatch] = []
        self.last_timestamp_ms = -1
        self.coordinator_epoch = -1
        self.transaction_first_offset = -1

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def enter(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()


class ProducerState:
    """The producers of one log, up to `end_offset`."""

    __slots__ = ("by_id", "end_offset", "expiration_ms")

    def __init__(self, expiration_ms: int = EXPIRATION_MS) -> None:
        self.by_id: dict[int, Producer] = {}
        self.end_offset = 0
        self.expiration_ms = expiration_ms

    def check(
        self, producer_id: int, epoch: int, base_sequence: int, offset_delta: int
    ) -> ProducedBatch | None:
        """May this batch follow? The stored batch when it is a repetition; refused if not."""
        producer = self.by_id.get(producer_id)
        if producer is None:
            # Nothing is known, perhaps because retention took it: any sequence may begin.
            return None
        if epoch == producer.epoch:
            batches = producer.batches
            # After a snapshot or a transaction marker there may be an epoch without batches.
            last = batches[-1].last_sequence if batches else NO_SEQUENCE
            if base_sequence == (last + 1) & SEQUENCE_MASK:
                return None
            return self._repeated(producer_id, producer, base_sequence, offset_delta)
        if epoch < producer.epoch:
            raise RefusedBatchError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} has epoch {epoch}, {producer.epoch} was seen",
                tells_log_start=True,
            )
        if base_sequence != 0 and producer.epoch != NO_PRODUCER_EPOCH:
            raise RefusedBatchError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} begins epoch {epoch} with sequence {base_sequence}",
                tells_log_start=True,
            )
        return None

    def _repeated(
        self, producer_id: int, producer: Producer, base_sequence: int, offset_delta: int
    ) -> ProducedBatch | None:
        last_sequence = (base_sequence + offset_delta) & SEQUENCE_MASK
        for batch in producer.batches:
            if batch.last_sequence == last_sequence and batch.offset_delta == offset_delta:
                return batch
        if producer.epoch == NO_PRODUCER_EPOCH:
            return None
        raise RefusedBatchError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {producer_id} sent sequence {base_sequence}"
            f" after {producer.last_sequence} in epoch {producer.epoch}",
            tells_log_start=True,
        )

    def add(self, producer_id: int, epoch: int, batch: ProducedBatch, attributes: int = 0) -> None:
        """A data batch is in the log."""
        producer = self.by_id.get(producer_id)
        if producer is None:
            producer = self.by_id[producer_id] = Producer(epoch)
        elif producer.epoch != epoch:
            producer.enter(epoch)
        batches = producer.batches
        batches.append(batch)
        if len(batches) > BATCHES_KEPT:
            del batches[0]
        producer.last_timestamp_ms = batch.timestamp_ms
        if attributes & TRANSACTIONAL and producer.transaction_first_offset < 0:
            producer.transaction_first_offset = batch.first_offset

    def observe(self, header: BatchHeader, coordinator_epoch: int = -1) -> None:
        """A batch of a log that is being replayed, control batches included."""
        if header.producer_id < 0:
            return
        if not header.attributes & CONTROL:
            batch = ProducedBatch(
                header.last_sequence,
                header.last_offset,
                header.last_offset_delta,
                header.max_timestamp,
            )
            self.add(header.producer_id, header.producer_epoch, batch, header.attributes)
            return
        producer = self.by_id.get(header.producer_id)
        if producer is None:
            producer = self.by_id[header.producer_id] = Producer(header.producer_epoch)
        producer.enter(header.producer_epoch)
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp_ms = header.max_timestamp
        producer.transaction_first_offset = -1

    def expire(self, now_ms: int) -> int:
        """Forget producers that have been silent too long, but none with an open transaction."""
        gone = [pid for pid, producer in self.by_id.items() if self._is_expired(producer, now_ms)]
        for producer_id in gone:
            del self.by_id[producer_id]
        return len(gone)

    def _is_expired(self, producer: Producer, now_ms: int) -> bool:
        return (
            producer.transaction_first_offset < 0
            and now_ms - producer.last_timestamp_ms >= self.expiration_ms
        )

    def first_unstable_offset(self) -> int | None:
        """Where the oldest open transaction begins."""
        starts = [p.transaction_first_offset for p in self.by_id.values()]
        return min((start for start in starts if start >= 0), default=None)

    # Snapshots

    def encode_snapshot(self) -> bytes:
        body = bytearray(len(self.by_id).to_bytes(4, "big"))
        for producer_id, producer in sorted(self.by_id.items()):
            last = producer.batches[-1] if producer.batches else ProducedBatch(-1, -1, 0, -1)
            body += ENTRY.pack(
                producer_id,
                producer.epoch,
                last.last_sequence,
                last.last_offset,
                last.offset_delta,
                producer.last_timestamp_ms,
                producer.coordinator_epoch,
                producer.transaction_first_offset,
            )
        return VERSION.to_bytes(2, "big") + crc32c.crc32c(body).to_bytes(4, "big") + bytes(body)

    def load_snapshot(self, data: bytes, end_offset: int, now_ms: int) -> bool:
        """Take the state from a snapshot; False, and nothing changed, when it is damaged."""
        producers = {}
        try:
            for producer_id, producer in _decode_snapshot(data):
                if not self._is_expired(producer, now_ms):
                    producers[producer_id] = producer
        except ValueError:
            return False
        self.by_id = producers
        self.end_offset = end_offset
        return True


def _decode_snapshot(data: bytes) -> Iterator[tuple[int, Producer]]:
    """Raises ValueError for what is not a snapshot."""
    if len(data) < PREFIX.size:
        raise ValueError("cut")
    version, crc, count = PREFIX.unpack_from(data)
    if version != VERSION or len(data) != PREFIX.size + count * ENTRY.size:
        raise ValueError("of another version, or cut")
    if crc32c.crc32c(data[CRC_END:]) != crc:
        raise ValueError("not what was written")
    for fields in ENTRY.iter_unpack(data[PREFIX.size :]):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator, first = fields
        producer = Producer(epoch)
        if offset >= 0:
            producer.batches.append(ProducedBatch(sequence, offset, delta, timestamp))
        producer.last_timestamp_ms = timestamp
        producer.coordinator_epoch = coordinator
        producer.transaction_first_offset = first
        yield producer_id, producer
