"""How much of why a batch is refused its client is told, as Apache Kafka 4.3.1 does."""

from collections.abc import Callable

import pytest

from pykraft.core.log.partition_log import PartitionLog
from pykraft.core.log.refusals import RefusedBatchError
from pykraft.core.log.validation import ERRORS_TOLD, RecordsUncheckedError, check_records
from pykraft.protocol.errors import ErrorCode
from pykraft.records.batch import CONTROL, LOG_APPEND_TIME
from pykraft.records.compression import GZIP
from pykraft.records.records import Record, build_batch

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
OpenLog = Callable[..., PartitionLog]


def append(log: PartitionLog, records: memoryview) -> None:
    try:
        log.append(records, leader_epoch=0, now_ms=NOW_MS)
    except RecordsUncheckedError:
        check_records(records, log.config, NOW_MS, log.name)


def refusal(log: PartitionLog, batch: bytes) -> RefusedBatchError:
    with pytest.raises(RefusedBatchError) as caught:
        append(log, memoryview(batch))
    return caught.value


def batch_of(*keys: bytes | None, timestamp_ms: int = NOW_MS, attributes: int = 0) -> bytes:
    records = [Record(key, b"v") for key in keys]
    return build_batch(records, timestamp_ms=timestamp_ms, attributes=attributes)


def test_bytes_that_are_no_batch_are_refused_without_a_word(open_log: OpenLog) -> None:
    error = refusal(open_log(), batch_of(b"k")[:-1])
    assert (error.tells_log_start, error.tells_reason) == (False, False)


def test_a_length_that_no_batch_has_is_told_of_the_first_batch_only(open_log: OpenLog) -> None:
    assert refusal(open_log(), bytes(80)).tells_reason
    assert not refusal(open_log(), batch_of(b"k") + bytes(80)).tells_reason


def test_a_batch_that_came_to_the_log_is_refused_with_the_logs_start(open_log: OpenLog) -> None:
    error = refusal(open_log(), batch_of(b"k", attributes=CONTROL))
    assert (error.tells_log_start, error.tells_reason) == (True, False)


def test_records_without_key_are_named(open_log: OpenLog) -> None:
    error = refusal(
        open_log(cleanup_policy=frozenset({"compact"})), batch_of(b"k", None, b"k", None)
    )
    assert error.code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in error.record_errors] == [1, 3]
    assert (error.tells_log_start, error.tells_reason) == (True, True)


def test_a_wrong_time_among_missing_keys_gives_the_code(open_log: OpenLog) -> None:
    log = open_log(cleanup_policy=frozenset({"compact"}), message_timestamp_before_max_ms=1000)
    old = NOW_MS - DAY_MS
    assert refusal(log, batch_of(None, None, timestamp_ms=old)).code == ErrorCode.INVALID_RECORD
    error = refusal(log, batch_of(None, b"k", timestamp_ms=old))
    assert error.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in error.record_errors] == [0, 1]


def test_a_client_may_not_stamp_for_us(open_log: OpenLog) -> None:
    log = open_log(message_timestamp_type="LogAppendTime")
    error = refusal(log, batch_of(b"k", b"k", attributes=LOG_APPEND_TIME))
    assert error.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in error.record_errors] == [0, 1]


def test_no_more_records_are_named_than_an_answer_should_have(open_log: OpenLog) -> None:
    keyless = batch_of(*[None] * (ERRORS_TOLD + 5), attributes=GZIP)
    error = refusal(open_log(cleanup_policy=frozenset({"compact"})), keyless)
    assert len(error.record_errors) == ERRORS_TOLD
    assert str(ERRORS_TOLD + 5) in str(error)
