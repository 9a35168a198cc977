from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.records.batch import LOG_APPEND_TIME, read_header
from pykraft.records.compression import CODECS, CorruptRecordsError
from pykraft.records.records import Record, build_batch, iterate, read_varint, write_varint

BYTES = st.none() | st.binary(max_size=40)
RECORDS = st.builds(
    Record,
    BYTES,
    BYTES,
    st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=3).map(tuple),
    st.integers(0, 2**42),
)


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_varint_comes_back_as_it_was(number: int) -> None:
    data = write_varint(number)
    assert read_varint(data, 0) == (number, len(data))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 11])
def test_a_varint_that_does_not_end_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptRecordsError):
        read_varint(data, 0)


@given(st.lists(RECORDS, min_size=1, max_size=5), st.sampled_from(list(CODECS.values())))
def test_records_come_back_with_offsets_and_times(records: list[Record], codec: int) -> None:
    batch = build_batch(records, base_offset=40, timestamp_ms=7, attributes=codec)
    found = list(iterate(batch))
    assert found == [record._replace(offset=40 + i) for i, record in enumerate(records)]
    assert read_header(batch).max_timestamp == max(r.timestamp_ms or 0 for r in records)


def test_with_log_append_time_every_record_has_the_batchs_time() -> None:
    batch = build_batch(
        [Record(None, b"a", (), 5), Record(None, b"b", (), 9)],
        timestamp_ms=1,
        attributes=LOG_APPEND_TIME,
    )
    assert [record.timestamp_ms for record in iterate(batch)] == [9, 9]


@given(st.data())
def test_damaged_records_are_refused_or_read_but_never_crash(data: st.DataObject) -> None:
    batch = bytearray(build_batch([Record(b"k", b"v", (("h", b"x"),))] * 3, timestamp_ms=1))
    position = data.draw(st.integers(61, len(batch) - 1))
    batch[position] = data.draw(st.integers(0, 255))
    with suppress(CorruptRecordsError):
        list(iterate(batch))


def test_a_count_that_the_payload_does_not_have_is_refused() -> None:
    batch = bytearray(build_batch([Record(b"k", b"v")], timestamp_ms=1))
    batch[57:61] = (3).to_bytes(4, "big")
    with pytest.raises(CorruptRecordsError):
        list(iterate(batch))
