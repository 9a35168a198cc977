"""Batches of the metadata log and of snapshots: records to bytes and back."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from typing_extensions import Buffer

from pykraft.protocol.control_records import (
    ControlRecord,
    decode_control_record,
    encode_control_record,
)
from pykraft.protocol.errors import ProtocolError
from pykraft.protocol.metadata_records import MetadataRecord, decode_record
from pykraft.records.batch import CONTROL, HEADER_BYTES, BatchHeader, read_header
from pykraft.records.records import Record, build_batch, iterate


@dataclass(frozen=True, slots=True)
class MetadataBatch:
    """Either control records or metadata records, never both."""

    header: BatchHeader
    records: tuple[MetadataRecord, ...] = ()
    control: tuple[ControlRecord, ...] = ()


def control_batch(
    records: Sequence[ControlRecord], *, base_offset: int, epoch: int, now_ms: int
) -> bytes:
    return build_batch(
        [Record(*encode_control_record(record)) for record in records],
        base_offset=base_offset,
        leader_epoch=epoch,
        timestamp_ms=now_ms,
        attributes=CONTROL,
    )


def metadata_batch(values: Sequence[bytes], *, base_offset: int, epoch: int, now_ms: int) -> bytes:
    """`values` are encoded metadata records."""
    return build_batch(
        [Record(None, value) for value in values],
        base_offset=base_offset,
        leader_epoch=epoch,
        timestamp_ms=now_ms,
    )


def decode_batch(batch: Buffer) -> MetadataBatch:
    """ProtocolError names the offset, so that a reader knows where a newer Kafka wrote."""
    header = read_header(batch)
    try:
        if header.is_control:
            return MetadataBatch(header, control=tuple(_control(batch)))
        return MetadataBatch(
            header, tuple(decode_record(record.value or b"") for record in iterate(batch))
        )
    except ProtocolError as error:
        where = f"offsets {header.base_offset} to {header.last_offset}"
        raise ProtocolError(f"metadata batch at {where}: {error}") from error


def _control(batch: Buffer) -> Iterator[ControlRecord]:
    for record in iterate(batch):
        yield decode_control_record(record.key or b"", record.value or b"")


def split_batches(data: Buffer) -> Iterator[memoryview]:
    """The whole batches in `data`; a part at the end is left."""
    view = memoryview(data)
    position = 0
    while position + HEADER_BYTES <= len(view):
        size = read_header(view, position).size
        if size < HEADER_BYTES or position + size > len(view):
            return
        yield view[position : position + size]
        position += size


def group_records(
    records: Iterable[MetadataRecord],
    encode: Callable[[MetadataRecord], bytes],
    *,
    count_max: int,
    bytes_max: int,
) -> Iterator[tuple[list[MetadataRecord], list[bytes]]]:
    """Records and their bytes, in groups that fit one batch each. A record is never cut."""
    group: list[MetadataRecord] = []
    values: list[bytes] = []
    size = 0
    for record in records:
        value = encode(record)
        if group and (len(group) == count_max or size + len(value) > bytes_max):
            yield group, values
            group, values, size = [], [], 0
        group.append(record)
        values.append(value)
        size += len(value)
    if group:
        yield group, values
