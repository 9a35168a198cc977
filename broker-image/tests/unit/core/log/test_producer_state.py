import pytest

from pykraft.core.log.producer_state import ProducedBatch, Producer, ProducerState
from pykraft.protocol.errors import ErrorCode, KafkaError

INT_MAX = 2**31 - 1


def state_after(*batches: tuple[int, int, int], epoch: int = 0) -> ProducerState:
    """Producer 1 wrote these (base sequence, records, first offset)."""
    state = ProducerState()
    for sequence, count, offset in batches:
        assert state.check(1, epoch, sequence, count - 1) is None
        last = (sequence + count - 1) & INT_MAX
        state.add(1, epoch, ProducedBatch(last, offset + count - 1, count - 1, 1000 + offset))
    return state


def test_the_next_sequence_is_accepted() -> None:
    assert state_after((0, 3, 10)).check(1, 0, 3, 0) is None


@pytest.mark.parametrize("sequence", [0, 2, 4, 7, INT_MAX])
def test_any_other_sequence_is_out_of_order(sequence: int) -> None:
    with pytest.raises(KafkaError) as caught:
        state_after((0, 3, 10)).check(1, 0, sequence, 0)
    assert caught.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_each_of_the_five_last_batches_is_recognised_and_the_sixth_is_not() -> None:
    state = state_after(*((2 * i, 2, 100 + 2 * i) for i in range(6)))
    for i in range(1, 6):
        known = state.check(1, 0, 2 * i, 1)
        assert known is not None
        assert known.first_offset == 100 + 2 * i
    with pytest.raises(KafkaError):
        state.check(1, 0, 0, 1)


def test_the_same_sequence_with_another_count_is_no_repetition() -> None:
    with pytest.raises(KafkaError):
        state_after((0, 3, 10)).check(1, 0, 0, 1)


def test_an_unknown_producer_may_begin_anywhere() -> None:
    assert ProducerState().check(1, 0, 77, 0) is None


def test_an_older_epoch_is_refused() -> None:
    with pytest.raises(KafkaError) as caught:
        state_after((0, 1, 0), epoch=3).check(1, 2, 1, 0)
    assert caught.value.code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_newer_epoch_begins_at_zero() -> None:
    state = state_after((0, 1, 0))
    assert state.check(1, 1, 0, 0) is None
    with pytest.raises(KafkaError) as caught:
        state.check(1, 1, 1, 0)
    assert caught.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_after_the_largest_integer() -> None:
    state = state_after((INT_MAX - 1, 3, 10), (1, 1, 13), (2, 1, 14))
    known = state.check(1, 0, INT_MAX - 1, 2)
    assert known is not None
    assert known.first_sequence == INT_MAX - 1


def test_silent_producers_are_forgotten_but_none_with_an_open_transaction() -> None:
    state = state_after((0, 1, 0))
    state.by_id[2] = Producer(0)
    state.by_id[2].transaction_first_offset = 5
    assert state.expire(1000 + state.expiration_ms - 1) == 0
    assert state.expire(1000 + state.expiration_ms) == 1
    assert list(state.by_id) == [2]
    assert state.first_unstable_offset() == 5


def test_a_snapshot_keeps_the_last_batch_of_each_producer() -> None:
    state = state_after((0, 2, 10), (2, 3, 12))
    loaded = ProducerState()
    assert loaded.load_snapshot(state.encode_snapshot(), 15, now_ms=0)
    assert loaded.end_offset == 15
    assert loaded.by_id[1].batches == state.by_id[1].batches[-1:]
    assert loaded.check(1, 0, 5, 0) is None


def test_a_snapshot_has_kafkas_layout() -> None:
    data = state_after((0, 2, 10)).encode_snapshot()
    assert data[:2] == b"\x00\x01"
    assert int.from_bytes(data[6:10], "big") == 1
    assert len(data) == 10 + 46
    assert ProducerState().encode_snapshot() == bytes.fromhex("000148674bc700000000")


@pytest.mark.parametrize("size", [0, 5, 9, 40])
def test_a_cut_snapshot_is_not_believed(size: int) -> None:
    assert not ProducerState().load_snapshot(state_after((0, 1, 0)).encode_snapshot()[:size], 1, 0)


def test_a_snapshot_with_a_changed_bit_is_not_believed() -> None:
    data = bytearray(state_after((0, 1, 0)).encode_snapshot())
    data[20] ^= 1
    assert not ProducerState().load_snapshot(bytes(data), 1, 0)
