"""The load: threads that do little more than system calls, so that the broker is what is measured.

Each thread has its own blocking connection. Python's lock is free while a call is in the kernel,
which is nearly always: the requests were encoded before.
"""

import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from wire import FetchRequest, ProduceReply, read_fetched

# A producer's max.in.flight.requests.per.connection.
IN_FLIGHT_MAX = 5
REPLY_SECONDS_MAX = 30
READ_BUFFER_BYTES = 64 << 20


class LoadError(AssertionError):
    """The broker answered otherwise than it should, or not at all."""


class Work(NamedTuple):
    """Prepared requests, sent again and again in this order, and the answer each must get."""

    frames: Sequence[bytes]
    replies: Sequence[ProduceReply]
    value_bytes: Sequence[int]


class Connection:
    """One blocking connection that reads whole frames into a buffer of its own."""

    def __init__(self, port: int, buffer_bytes: int = 1 << 16) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), REPLY_SECONDS_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = memoryview(bytearray(buffer_bytes))
        self._begin = self._end = 0

    def send(self, frame: bytes) -> None:
        self.socket.sendall(frame)

    def read(self) -> memoryview:
        """The next frame without its size; valid until the next call."""
        self._fill(4)
        (size,) = struct.unpack_from(">i", self._buffer, self._begin)
        if not 0 < size <= len(self._buffer) - 4:
            raise LoadError(f"an answer of {size} bytes")
        self._fill(4 + size)
        at = self._begin + 4
        self._begin = at + size
        return self._buffer[at : at + size]

    def _fill(self, size: int) -> None:
        """Have at least so many unread bytes."""
        unread = self._end - self._begin
        if unread >= size:
            return
        # What is left over is moved to the front, so that a frame is always in one piece.
        if self._begin:
            self._buffer[:unread] = bytes(self._buffer[self._begin : self._end])
            self._begin, self._end = 0, unread
        while self._end < size:
            got = self.socket.recv_into(self._buffer[self._end :])
            if got == 0:
                raise LoadError("the broker closed the connection")
            self._end += got

    def close(self) -> None:
        self.socket.close()


def produce(port: int, works: Sequence[Work], *, seconds: float, bytes_max: int) -> int:
    """Value bytes that were acknowledged.

    Each work on its own connection with five requests in flight, until time or bytes are up.
    """
    sent = [0] * len(works)
    deadline = time.perf_counter() + seconds

    def run(number: int) -> None:
        sent[number] = _pump(port, works[number], deadline, bytes_max // len(works))

    _in_threads(run, len(works))
    return sum(sent)


def _pump(port: int, work: Work, deadline: float, bytes_max: int) -> int:
    connection = Connection(port)
    waiting: deque[ProduceReply] = deque()
    number = produced = 0
    count = len(work.frames)
    clock = time.perf_counter
    while clock() < deadline and produced < bytes_max:
        if len(waiting) == IN_FLIGHT_MAX:
            _check(waiting.popleft(), connection)
        connection.send(work.frames[number])
        waiting.append(work.replies[number])
        produced += work.value_bytes[number]
        number = (number + 1) % count
    while waiting:
        _check(waiting.popleft(), connection)
    connection.close()
    return produced


def _check(expected: ProduceReply, connection: Connection) -> None:
    body = bytes(connection.read())
    if not expected.is_good(body):
        raise LoadError(f"a Produce was refused: {body[:120]!r}")


def paced_latencies_ms(port: int, work: Work, *, rate: int, seconds: float) -> list[float]:
    """Sends one request each 1/rate s; how long each took from when it was due, in ms.

    From when it was due and not from when it was sent: a broker that stalls delays also those that
    could not be sent meanwhile.
    """
    connection = Connection(port)
    waiting: deque[float] = deque()
    latencies: list[float] = []
    clock, reply, frame = time.perf_counter, work.replies[0], work.frames[0]
    total = int(rate * seconds)
    begin = clock()
    sent = 0
    while len(latencies) < total:
        due = begin + sent / rate
        may_send = sent < total and len(waiting) < IN_FLIGHT_MAX
        if may_send and due <= clock():
            connection.send(frame)
            waiting.append(due)
            sent += 1
            continue
        patience = max(0.0, due - clock()) if may_send else REPLY_SECONDS_MAX
        if select.select([connection.socket], [], [], patience)[0]:
            _check(reply, connection)
            latencies.append((clock() - waiting.popleft()) * 1000)
    connection.close()
    return latencies


def fetch(port: int, topic: str, ends: Sequence[int], readers: int, *, seconds: float) -> int:
    """Bytes of records that the readers got.

    Each reads every partition from its start, again and again until time is up.
    """
    read = [0] * readers
    deadline = time.perf_counter() + seconds

    def run(number: int) -> None:
        read[number] = _read_all(port, topic, ends, deadline)

    _in_threads(run, readers)
    return sum(read)


def _read_all(port: int, topic: str, ends: Sequence[int], deadline: float) -> int:
    connection = Connection(port, READ_BUFFER_BYTES)
    request = FetchRequest(topic)
    offsets = dict.fromkeys(range(len(ends)), 0)
    total = 0
    while time.perf_counter() < deadline:
        connection.send(request.frame(offsets))
        size, found = read_fetched(connection.read())
        if not found:
            raise LoadError("a Fetch brought nothing though there is more")
        for partition, (first, after) in found.items():
            # Whoever was served goes to the end of the request, as a consumer does it.
            wanted = offsets.pop(partition)
            if not first <= wanted < after:
                raise LoadError(f"asked for offset {wanted}, got {first} to {after}")
            offsets[partition] = 0 if after >= ends[partition] else after
        total += size
    connection.close()
    return total


def _in_threads(run: Callable[[int], None], count: int) -> None:
    """Run in so many threads at once; an error of any of them is ours."""
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            run(number)
        except (OSError, AssertionError) as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise LoadError(f"the load stopped: {errors[0]!r}") from errors[0]
