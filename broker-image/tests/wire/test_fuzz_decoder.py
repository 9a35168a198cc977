"""Whatever the bytes, the decoders return a message or raise ProtocolError, soon and cheaply.

The corpus is the same that is sent to a live node (tests/clients/test_fuzz_node.py).
"""

import io
import random
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import corpus
import pytest
from frames import API_VERSIONS, SERVED, Frame, extremes, request, uvarint
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema
from kio.serial import entity_reader, entity_writer

from pykraft.protocol.decoding import decode_request, read_request_header
from pykraft.protocol.errors import ProtocolError
from pykraft.protocol.hot_requests import decode_fetch, decode_produce
from pykraft.protocol.readers import ELEMENTS_MAX
from pykraft.protocol.versions import API_VERSIONS as ANNOUNCED
from pykraft.protocol.versions import is_served

CORPUS = corpus.load()
REQUESTS = [request(key, version) for key, versions in SERVED.items() for version in versions]
NEWEST = [request(key, versions[-1]) for key, versions in SERVED.items()]
HOT = {0: decode_produce, 1: decode_fetch}
# A small request may cost a little more than its own objects; a forged one must cost no more.
SMALL_BYTES_MAX = 256 * 1024
# The longest that one request may hold up the loop, which all clients share; on a busy machine.
LONG_REQUEST_SECONDS_MAX = 5.0


def decode(data: bytes) -> object:
    """As a connection does it: the header, then the body if the API and its version are served."""
    view = memoryview(data)
    api_key, version, _, _, offset = read_request_header(view)
    if not is_served(api_key, version):
        return None
    if api_key in HOT:
        by_hand = HOT[api_key](version, view, offset)
        # The composed readers take the same bytes, so they must agree about what is bad.
        decode_request(api_key, version, view, offset)
        return by_hand
    message = decode_request(api_key, version, view, offset)
    assert isinstance(message, SimpleNamespace)
    return message


def decode_or_refuse(data: bytes) -> object:
    try:
        return decode(data)
    except ProtocolError:
        return None


@contextmanager
def peak_bytes_at_most(limit: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= limit


@pytest.mark.parametrize("frame", REQUESTS, ids=str)
def test_the_requests_that_are_forged_are_valid(frame: Frame) -> None:
    schema = load_request_schema(frame.api_key, frame.version)
    header, at = entity_reader(schema.__header_schema__)(frame.data, 0)
    body, size = entity_reader(schema)(frame.data, at)
    assert at + size == len(frame.data)
    out = io.BytesIO()
    entity_writer(schema.__header_schema__)(out, header)
    entity_writer(schema)(out, body)
    # kio leaves out a tagged field that has its default.
    assert frame.data.startswith(out.getvalue()[:-16])
    assert decode(frame.data) is not None


def test_the_corpus_has_every_api_and_version_that_is_served() -> None:
    held = {read_request_header(memoryview(data))[:2] for data in CORPUS if len(data) >= 10}
    served = {
        (key, version) for key in ANNOUNCED for version in range(99) if is_served(key, version)
    }
    assert served == {(key, version) for key, versions in SERVED.items() for version in versions}
    assert served <= held


@pytest.mark.parametrize("frame", REQUESTS, ids=str)
def test_a_forged_number_anywhere_is_refused_or_harmless(frame: Frame) -> None:
    decode(frame.data)
    with peak_bytes_at_most(SMALL_BYTES_MAX):
        for mark in frame.marks:
            for number in extremes(mark):
                decode_or_refuse(frame.forged(mark, number))


@pytest.mark.parametrize("frame", REQUESTS, ids=str)
def test_a_request_cut_anywhere_is_refused(frame: Frame) -> None:
    for size in range(len(frame.data)):
        with pytest.raises(ProtocolError):
            decode(frame.data[:size])


@settings(max_examples=1500, deadline=None)
@given(st.sampled_from(CORPUS), st.randoms(use_true_random=False))
def test_damaged_requests_are_refused_or_read(data: bytes, chance: random.Random) -> None:
    decode_or_refuse(corpus.damaged(data, chance))


@settings(max_examples=500, deadline=None)
@given(st.sampled_from(sorted(SERVED)), st.integers(0, 18), st.binary(max_size=300))
@example(API_VERSIONS, 3, b"\x00" + b"\xff" * 20)
def test_noise_behind_a_header_is_refused_or_read(api_key: int, version: int, noise: bytes) -> None:
    decode_or_refuse(request_head(api_key, version) + noise)


def request_head(api_key: int, version: int) -> bytes:
    return api_key.to_bytes(2) + version.to_bytes(2) + bytes(4) + b"\xff\xff"


@pytest.mark.parametrize("frame", NEWEST, ids=str)
def test_a_long_request_of_empty_tags_does_not_hold_up_the_loop(frame: Frame) -> None:
    """Ten megabytes, two bytes a tag: five million turns if each is looked at."""
    count = 5_000_000
    tags = uvarint(count) + b"\x7f\x00" * count
    started = time.perf_counter()
    decode_or_refuse(frame.data[:-1] + tags)
    assert time.perf_counter() - started < LONG_REQUEST_SECONDS_MAX


@pytest.mark.parametrize("api_key", [0, 1, 3, 19])
def test_a_request_with_all_the_elements_allowed_does_not_hold_up_the_loop(api_key: int) -> None:
    frame = request(api_key, SERVED[api_key][-1])
    first = next(mark for mark in frame.sizes() if mark.path in ("topic_data", "topics"))
    started = time.perf_counter()
    decode_or_refuse(frame.forged(first, ELEMENTS_MAX - 10) + bytes(10_000_000))
    assert time.perf_counter() - started < LONG_REQUEST_SECONDS_MAX


@pytest.mark.parametrize("frame", NEWEST, ids=str)
def test_more_elements_than_allowed_are_refused_at_once(frame: Frame) -> None:
    zeros = bytes(10_000_000)
    for mark in frame.sizes():
        if mark.kind != ">h":
            with peak_bytes_at_most(len(zeros) + 4 * SMALL_BYTES_MAX):
                decode_or_refuse(frame.forged(mark, ELEMENTS_MAX + 2) + zeros)
