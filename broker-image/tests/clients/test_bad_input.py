"""Input that no client should send: the right error or a closed connection, and others go on.

Runs against either broker (TARGET), so that what is expected here is what Apache Kafka does.
"""

import socket
import struct
from collections.abc import Iterator

import pytest
from batches import Batch, batch_of
from bystander import TOPIC, Bystander, create_topic, produce
from frames import CORRELATION_ID, SERVED, Frame, framed, request
from frames import TOPIC as FORGED
from processes import TARGET, Node, new_node
from raw_client import ConnectionClosedError, RawClient, decode_answer

PRODUCE, METADATA, API_VERSIONS = 0, 3, 18
CORRUPT_MESSAGE, INVALID_REQUIRED_ACKS, INVALID_TOPIC, UNSUPPORTED_VERSION = 2, 21, 17, 35
INVALID_TIMESTAMP, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, INVALID_RECORD = 32, 53, 87
REQUEST_BYTES_MAX = 100 * 1024 * 1024
HOT = [(0, 3), (0, 9), (0, 13), (1, 4), (1, 12), (1, 18), (2, 1), (2, 11), (3, 1), (3, 13), (18, 4)]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with new_node(TARGET, tmp_path_factory.mktemp("bad-input")) as node:
        node.start()
        create_topic(node.port, TOPIC)
        create_topic(node.port, FORGED)
        yield node
        node.stop()


@pytest.fixture(scope="module", autouse=True)
def bystander(node: Node) -> Iterator[Bystander]:
    """One for the whole module: it must not notice anything of all this."""
    with Bystander(node.port) as bystander:
        yield bystander


@pytest.fixture
def client(node: Node) -> Iterator[RawClient]:
    with RawClient(node.port) as client:
        yield client


def is_refused(client: RawClient, raw: bytes) -> bool:
    client.send_bytes(raw)
    return client.is_closed_by_peer()


@pytest.mark.parametrize("size", [-1, -(2**31), REQUEST_BYTES_MAX + 1, 2**31 - 1])
def test_a_frame_of_impossible_size_closes_the_connection(client: RawClient, size: int) -> None:
    assert is_refused(client, struct.pack(">i", size) + b"and so on")


def test_an_empty_frame_closes_the_connection_and_what_follows_is_not_read(
    client: RawClient,
) -> None:
    assert is_refused(client, framed(b"") + framed(request(API_VERSIONS, 0).data))


@pytest.mark.parametrize("size", range(1, 14))
def test_a_header_cut_short_closes_the_connection(client: RawClient, size: int) -> None:
    assert is_refused(client, framed(request(API_VERSIONS, 0).data[:size]))


# Never assigned; negative; LeaderAndIsr, removed in 4.0; Vote, which is for controllers.
@pytest.mark.parametrize("api_key", [999, -1, 4, 52])
def test_an_unknown_api_key_closes_the_connection(client: RawClient, api_key: int) -> None:
    assert is_refused(client, framed(struct.pack(">hhih", api_key, 0, 7, -1) + bytes(20)))


@pytest.mark.parametrize(("api_key", "version"), [(3, 99), (3, -1), (0, 2), (1, 3), (19, 1)])
def test_an_unknown_version_closes_the_connection(
    client: RawClient, api_key: int, version: int
) -> None:
    assert is_refused(client, framed(struct.pack(">hhih", api_key, version, 7, -1) + bytes(20)))


@pytest.mark.parametrize("version", [5, 99, 2**15 - 1])
def test_an_unknown_version_of_api_versions_is_answered_in_version_0(
    client: RawClient, version: int
) -> None:
    client.send_frame(struct.pack(">hhihB", API_VERSIONS, version, 7, -1, 0))
    answer = decode_answer(API_VERSIONS, 0, client.read_frame())
    assert answer["error_code"] == UNSUPPORTED_VERSION
    (own,) = [key for key in answer["api_keys"] if key["api_key"] == API_VERSIONS]
    assert own["max_version"] == 4
    assert client.ask(API_VERSIONS, 4, client_software_name="x", client_software_version="1")


@pytest.mark.parametrize(("api_key", "version"), HOT)
def test_a_body_cut_anywhere_closes_the_connection(node: Node, api_key: int, version: int) -> None:
    frame = request(api_key, version)
    header = 10 + len("forger")
    answered = []
    for size in range(header, len(frame.data)):
        with RawClient(node.port) as client:
            if not is_refused(client, framed(frame.data[:size])):
                answered.append(size)
    assert answered == [], f"{frame} of {len(frame.data)} bytes"


def test_bytes_after_the_body_are_ignored(client: RawClient) -> None:
    client.send_frame(request(METADATA, 1).data + b"and more")
    frame = client.read_frame()
    assert struct.unpack_from(">i", frame)[0] == CORRELATION_ID
    assert decode_answer(METADATA, 1, frame)["topics"][0]["name"] == FORGED


@pytest.mark.parametrize("length", [7, 100, 2**15 - 1])
def test_a_client_id_longer_than_the_frame_closes_the_connection(
    client: RawClient, length: int
) -> None:
    assert is_refused(client, framed(struct.pack(">hhih", API_VERSIONS, 0, 7, length) + b"forger"))


def test_a_client_id_that_is_no_utf_8_does_no_harm(client: RawClient) -> None:
    client.send_frame(request(METADATA, 1).data.replace(b"forger", b"\xff\xc0\x80\xed\xa0\x80"))
    assert decode_answer(METADATA, 1, client.read_frame())["topics"][0]["error_code"] == 0


@pytest.mark.parametrize("version", [1, 12])
def test_a_topic_name_that_is_no_utf_8_is_no_topic(client: RawClient, version: int) -> None:
    """Kafka puts a replacement character there and finds the name invalid."""
    given = {"topic_id": bytes(16)} if version == 12 else {}
    frame = request(METADATA, version, **given)
    client.send_frame(frame.data.replace(b"forged", b"\xff\xc0\x80\xed\xa0\x80"))
    try:
        answer = decode_answer(METADATA, version, client.read_frame())
    except ConnectionClosedError:
        return
    assert answer["topics"][0]["error_code"] == INVALID_TOPIC


ONE = batch_of(b"value")
BAD_BATCHES: dict[str, tuple[bytes, int]] = {
    "a wrong checksum": (ONE.with_(crc_error=1).encode(), CORRUPT_MESSAGE),
    "magic 0": (ONE.with_(magic=0).encode(), INVALID_RECORD),
    "magic 1": (ONE.with_(magic=1).encode(), INVALID_RECORD),
    "magic 3": (ONE.with_(magic=3).encode(), CORRUPT_MESSAGE),
    "magic -1": (ONE.with_(magic=-1).encode(), CORRUPT_MESSAGE),
    "a length one too long": (ONE.with_(length_error=1).encode(), INVALID_RECORD),
    "a length one too short": (ONE.with_(length_error=-1).encode(), CORRUPT_MESSAGE),
    "a length below the header's": (ONE.with_(length_error=-20).encode(), CORRUPT_MESSAGE),
    "a negative length": (ONE.with_(length_error=-200).encode(), CORRUPT_MESSAGE),
    "no bytes": (b"", INVALID_RECORD),
    "one byte": (b"\x00", INVALID_RECORD),
    "half a header": (ONE.encode()[:30], INVALID_RECORD),
    "half a batch": (ONE.encode()[:-1], INVALID_RECORD),
    "two batches": (ONE.encode() * 2, INVALID_RECORD),
    "no records": (Batch([]).encode(), INVALID_RECORD),
    "a count of none": (ONE.with_(count=0).encode(), INVALID_RECORD),
    "a negative count": (ONE.with_(count=-1).encode(), INVALID_RECORD),
    "the lowest count": (ONE.with_(count=-(2**31)).encode(), INVALID_RECORD),
    "a count of two": (ONE.with_(count=2).encode(), INVALID_RECORD),
    "a count of two billion": (
        ONE.with_(count=2**31 - 1, last_offset_delta=2**31 - 2).encode(),
        INVALID_RECORD,
    ),
    "a last offset beyond the count": (ONE.with_(last_offset_delta=5).encode(), INVALID_RECORD),
    "a negative last offset": (ONE.with_(last_offset_delta=-1).encode(), INVALID_RECORD),
    "a base offset": (ONE.with_(base_offset=5).encode(), INVALID_RECORD),
    "a control batch": (ONE.with_(attributes=0x20).encode(), INVALID_RECORD),
    "a producer without sequence": (
        ONE.with_(producer_id=5, producer_epoch=0).encode(),
        INVALID_RECORD,
    ),
    "a transaction without its id": (
        ONE.with_(attributes=0x10, producer_id=5, producer_epoch=0, base_sequence=0).encode(),
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    "a time in the far future": (ONE.with_(timestamp_ms=2**63 - 1).encode(), INVALID_TIMESTAMP),
}


@pytest.mark.parametrize("wrong", BAD_BATCHES)
def test_a_batch_that_is_wrong_is_refused_and_the_connection_stays(
    client: RawClient, wrong: str
) -> None:
    records, code = BAD_BATCHES[wrong]
    assert produce(client, FORGED, records)["error_code"] == code
    assert produce(client, FORGED, ONE.encode())["error_code"] == 0


@pytest.mark.parametrize("acks", [2, -2, 2**15 - 1])
def test_acks_that_do_not_exist_are_refused(client: RawClient, acks: int) -> None:
    assert produce(client, FORGED, ONE.encode(), acks)["error_code"] == INVALID_REQUIRED_ACKS


def test_a_bad_batch_that_wants_no_answer_closes_the_connection(client: RawClient) -> None:
    records = ONE.with_(crc_error=1).encode()
    assert is_refused(client, framed(request(PRODUCE, 9, acks=0, records=records).data))


def test_a_sender_of_single_bytes_is_served(client: RawClient) -> None:
    for byte in framed(request(METADATA, 1).data) * 2:
        client.send_bytes(bytes([byte]))
    first, second = client.read_frame(), client.read_frame()
    assert first == second
    assert decode_answer(METADATA, 1, first)["topics"][0]["name"] == FORGED


def test_a_connection_that_closes_half_way_through_a_frame_is_let_go(node: Node) -> None:
    frame = framed(request(METADATA, 1).data)
    for size in range(len(frame)):
        with socket.create_connection(("127.0.0.1", node.port), 10) as half:
            half.sendall(frame[:size])
            half.shutdown(socket.SHUT_WR)
            assert half.recv(1) == b""


def test_whoever_closes_his_sending_side_still_gets_his_answer(node: Node) -> None:
    with socket.create_connection(("127.0.0.1", node.port), 10) as half:
        half.sendall(framed(request(METADATA, 1).data))
        half.shutdown(socket.SHUT_WR)
        with half.makefile("rb") as stream:
            (size,) = struct.unpack(">i", stream.read(4))
            answer = stream.read()
    assert len(answer) == size
    assert decode_answer(METADATA, 1, answer)["topics"][0]["name"] == FORGED


def test_connections_that_are_reset_are_let_go(node: Node) -> None:
    frame = framed(request(METADATA, 1).data)
    for size in [0, 3, 4, 10, len(frame) - 1, len(frame)] * 50:
        with socket.create_connection(("127.0.0.1", node.port), 10) as one:
            # No time to linger: closing sends RST.
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.sendall(frame[:size])


@pytest.mark.parametrize("frame", [request(18, 0), request(3, 1), request(0, 9, acks=1)], ids=str)
def test_many_requests_sent_at_once_are_answered_in_order(client: RawClient, frame: Frame) -> None:
    count = 500
    numbered = (
        framed(frame.data[:4] + struct.pack(">i", number) + frame.data[8:])
        for number in range(count)
    )
    client.send_bytes(b"".join(numbered))
    answers = [client.read_frame() for _ in range(count)]
    assert [struct.unpack_from(">i", each)[0] for each in answers] == list(range(count))


def test_every_api_of_a_single_node_is_advertised(client: RawClient) -> None:
    """What the forged requests are made for is what the node serves."""
    keys = {key["api_key"]: key for key in client.ask(API_VERSIONS, 0)["api_keys"]}
    for api_key, versions in SERVED.items():
        low, high = keys[api_key]["min_version"], keys[api_key]["max_version"]
        assert low <= versions[0]
        assert versions[-1] <= high
