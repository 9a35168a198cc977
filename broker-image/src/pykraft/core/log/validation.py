"""Why a batch from a client is refused, in the order in which Kafka would find out.

The append path tests everything at once and comes here only when something is wrong, so that this
may be slow and exact. Checked against Apache Kafka 4.3.1. Two things Kafka finds and we do not,
because the records of a batch are not looked at: a compressed payload that does not decompress, and
a record count that the payload does not have although it could.
"""

from typing import NoReturn

import crc32c

from pykraft.core.log.config import LogConfig
from pykraft.core.log.refusals import RecordError, RefusedBatchError
from pykraft.protocol.errors import ErrorCode, KafkaError
from pykraft.records.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_TIMESTAMP,
    RECORD_BYTES_MIN,
    BatchHeader,
)
from pykraft.records.compression import (
    DECOMPRESSED_BYTES_MAX,
    ZSTD,
    CompressedBytesError,
    CorruptRecordsError,
)
from pykraft.records.records import iterate

# Up to and including the magic byte: less is no batch at all.
MAGIC_END = 17
# The smallest record of the oldest format, which is what Kafka compares a length with.
OLD_RECORD_BYTES_MIN = 14
# More cannot be unpacked, whatever a batch claims.
RECORDS_MAX = DECOMPRESSED_BYTES_MAX // RECORD_BYTES_MIN
# Kafka names every record that is wrong, and a compressed batch may have millions.
ERRORS_TOLD = 1000
# What may be looked at while everybody else waits: about a millisecond.
RECORDS_AT_ONCE_MAX = 1000


class RecordsUncheckedError(Exception):
    """The records of a batch must be looked at one by one, and they are too many for the loop."""


def cut_to_one_batch(records: memoryview) -> memoryview:
    """The one batch, without bytes after it that are not even the beginning of another."""
    size = _batch_size(records)
    if size is None or size > len(records):
        raise RefusedBatchError(
            ErrorCode.INVALID_RECORD, "there must be one record batch per partition"
        )
    if records[16] != MAGIC:
        raise RefusedBatchError(
            ErrorCode.INVALID_RECORD, f"magic must be {MAGIC}, it is {records[16]}"
        )
    rest = _batch_size(records[size:], is_first=False)
    if rest is not None and rest <= len(records) - size:
        raise RefusedBatchError(
            ErrorCode.INVALID_RECORD, "only one record batch per partition is allowed"
        )
    if size < HEADER_BYTES:
        raise RefusedBatchError(ErrorCode.CORRUPT_MESSAGE, f"a batch of {size} bytes has no header")
    return records[:size]


def _batch_size(records: memoryview, *, is_first: bool = True) -> int | None:
    """None for less than the beginning of a batch. Only of the first Kafka tells what is wrong."""
    if len(records) < LOG_OVERHEAD_BYTES:
        return None
    length = int.from_bytes(records[8:12], "big", signed=True)
    if length < OLD_RECORD_BYTES_MIN:
        raise RefusedBatchError(
            ErrorCode.CORRUPT_MESSAGE,
            f"Record size {length} is less than the minimum record overhead"
            f" ({OLD_RECORD_BYTES_MIN})",
            tells_reason=is_first,
        )
    if len(records) < MAGIC_END:
        return None
    if records[16] > MAGIC:
        magic = int.from_bytes(records[16:17], "big", signed=True)
        raise RefusedBatchError(
            ErrorCode.CORRUPT_MESSAGE,
            f"Invalid magic found in record: {magic}",
            tells_reason=is_first,
        )
    return length + LOG_OVERHEAD_BYTES


def cut_to_first(batches: memoryview) -> memoryview:
    """The first of several batches, checked as far as a replica does: its size and checksum."""
    size = _batch_size(batches)
    if size is None or not HEADER_BYTES <= size <= len(batches) or batches[16] != MAGIC:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "bytes that are not a whole record batch")
    batch = batches[:size]
    if crc32c.crc32c(batch[ATTRIBUTES_AT:]).to_bytes(4, "big") != batch[17:ATTRIBUTES_AT]:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the batch does not match its checksum")
    return batch


def overstates(attributes: int, count: int) -> bool:
    """Of a batch with fewer bytes than so many records take: it must at least be compressed.

    The count gives the offsets of all that follows; two billion in a hundred bytes must not pass.
    """
    return not attributes & CODEC_MASK or count > RECORDS_MAX


def refuse(records: memoryview, max_message_bytes: int) -> NoReturn:
    """Say what is wrong with the header of exactly one batch."""
    cut_to_one_batch(records)
    header = BatchHeader._make(HEADER.unpack_from(records))
    if header.base_offset != 0:
        raise _refused_by_log(f"the base offset must be 0, it is {header.base_offset}")
    if header.size > max_message_bytes:
        raise RefusedBatchError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {header.size} bytes, {max_message_bytes} are allowed",
        )
    if crc32c.crc32c(records[ATTRIBUTES_AT:]) != header.crc:
        raise RefusedBatchError(ErrorCode.CORRUPT_MESSAGE, "the batch does not match its checksum")
    if header.count <= 0 or header.count != header.last_offset_delta + 1:
        raise _refused_by_log(
            f"the batch has {header.count} records, its last has {header.last_offset_delta}"
        )
    if header.attributes & CONTROL:
        raise _refused_by_log("clients may not write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise _refused_by_log(f"sequence {header.base_sequence} with a producer id")
    if header.is_transactional:
        # This is what Kafka answers when the request names no transactional id; until there is a
        # coordinator no request can.
        raise RefusedBatchError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "the batch belongs to no transaction"
        )
    payload = header.size - HEADER_BYTES
    if header.count * RECORD_BYTES_MIN > payload and overstates(header.attributes, header.count):
        raise _refused_by_log(f"{header.count} records in {payload} bytes cannot be")
    assert header.attributes & CODEC_MASK > ZSTD, header
    # Kafka falls over such a batch, and this is what its clients then see.
    raise _refused_by_log(f"unknown codec {header.codec}", ErrorCode.UNKNOWN_SERVER_ERROR)


def _refused_by_log(reason: str, code: ErrorCode = ErrorCode.INVALID_RECORD) -> RefusedBatchError:
    return RefusedBatchError(code, reason, tells_log_start=True)


def unreadable(error: CorruptRecordsError) -> RefusedBatchError:
    """Of records that had to be looked at. Kafka falls over bytes that are not of their codec."""
    fell = isinstance(error, CompressedBytesError)
    code = ErrorCode.UNKNOWN_SERVER_ERROR if fell else ErrorCode.INVALID_RECORD
    return _refused_by_log(str(error), code)


def check_at_once(
    records: memoryview, config: LogConfig, now_ms: int, topic_partition: str
) -> None:
    """`check_records`, unless that may take long."""
    header = BatchHeader._make(HEADER.unpack_from(records))
    if header.codec or header.count > RECORDS_AT_ONCE_MAX:
        raise RecordsUncheckedError
    check_records(records, config, now_ms, topic_partition)


def check_records(
    records: memoryview, config: LogConfig, now_ms: int, topic_partition: str
) -> None:
    """Look at every record: only for compacted topics and for headers with a doubtful time."""
    try:
        errors = _RecordErrors(records, config, now_ms)
    except CorruptRecordsError as error:
        raise unreadable(error) from error
    if not errors.count:
        return
    raise RefusedBatchError(
        ErrorCode.INVALID_TIMESTAMP if errors.of_time else ErrorCode.INVALID_RECORD,
        f"{errors.count} records of the batch may not be in {topic_partition}",
        tells_log_start=True,
        tells_reason=True,
        record_errors=errors.told,
    )


class _RecordErrors:
    """What is wrong with the records of a batch, one by one; a missing key comes first."""

    def __init__(self, records: memoryview, config: LogConfig, now_ms: int) -> None:
        self.count = 0
        self.of_time = False
        self.told: list[RecordError] = []
        header = BatchHeader._make(HEADER.unpack_from(records))
        stamped_by_us = config.message_timestamp_type == "LogAppendTime"
        stamped_by_client = bool(header.attributes & LOG_APPEND_TIME)
        earliest = now_ms - config.message_timestamp_before_max_ms
        latest = now_ms + config.message_timestamp_after_max_ms
        for at, record in enumerate(iterate(records)):
            timestamp = record.timestamp_ms
            assert timestamp is not None
            if config.compacts and record.key is None:
                self._add(at, "a compacted topic cannot take a record without key")
            elif stamped_by_us:
                if stamped_by_client:
                    self.of_time = True
                    self._add(at, "a producer may not set the timestamp type LogAppendTime")
            elif timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest:
                self.of_time = True
                self._add(at, f"timestamp {timestamp} is not within [{earliest}, {latest}]")

    def _add(self, index: int, what: str) -> None:
        self.count += 1
        if self.count <= ERRORS_TOLD:
            self.told.append((index, what))
