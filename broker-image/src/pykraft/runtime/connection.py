"""One client connection on a raw socket: frames in, requests one at a time, answers out in order.

There is no transport, no stream and no task. The loop calls `on_readable`; whole frames are cut out
of a buffer that all connections share and handled in place; a frame that is not all there yet moves
to a buffer of its own, which grows with what arrives and never with what is announced.

Like Kafka, a connection is muted while a request is under way: the next one is looked at when the
answer has been handed to the kernel. So a client that does not read is owed one answer at most, and
what that answer holds of log files costs no memory.
"""

import errno
import logging
import os
import socket
import struct
import time
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Sequence

from pykraft.core.log.partition_log import FileSlice
from pykraft.core.storage import StorageError
from pykraft.handlers.context import Broker, Part, RequestContext
from pykraft.protocol.decoding import decode_request, skip_tags
from pykraft.protocol.encoding import response_header
from pykraft.protocol.errors import ProtocolError
from pykraft.protocol.versions import NAMES
from pykraft.runtime.dispatch import Route, Routes

log = logging.getLogger("pykraft.connection")

FRAME_SIZE = struct.Struct(">i")
# api key, version, correlation id and the length of the client id.
REQUEST_HEAD = struct.Struct(">hhih")

# One system call brings a producer's requests in flight, large ones whole and without a copy.
SCRATCH_BYTES = 1024 * 1024
# A frame's own buffer starts with this and grows as bytes arrive, so that a forged size is free:
# ten thousand clients that begin a frame and never go on hold 40 MB.
FRAME_BUFFER_BYTES_MIN = 4 * 1024
FRAME_BUFFER_GROWTH = 4
# A frame buffer up to this size is kept for the next large frame of the same connection.
FRAME_BUFFER_BYTES_KEPT = 2 * 1024 * 1024
# Below this size one read and one send are cheaper than a send, a sendfile and a send.
SENDFILE_BYTES_MIN = 32 * 1024
# Answers that leave together; each may hold a stretch of a file.
ANSWERS_GATHERED_MAX = 32
# Frames handled in one go before other connections get their turn.
FRAMES_PER_TURN = 64


class FilePart:
    """A stretch of a log file that is being sent. It holds the file open until it is out."""

    __slots__ = ("file", "left", "position")

    def __init__(self, found: FileSlice) -> None:
        self.file = found.file
        self.position = found.position
        self.left = found.size


class Connection:
    __slots__ = (
        "backlog",
        "broker",
        "busy",
        "closed",
        "context",
        "fd",
        "filled",
        "frame",
        "gathering",
        "handling",
        "last_active",
        "listener",
        "loop",
        "need",
        "on_closed",
        "out",
        "peer",
        "reading",
        "request_bytes_max",
        "routes",
        "scratch",
        "sock",
        "writing",
    )

    def __init__(
        self,
        loop: AbstractEventLoop,
        sock: socket.socket,
        peer: str,
        listener: str,
        broker: Broker,
        routes: Routes,
        scratch: memoryview,
        on_closed: Callable[["Connection"], None],
    ) -> None:
        self.loop = loop
        self.sock = sock
        self.fd = sock.fileno()
        self.peer = peer
        self.listener = listener
        self.broker = broker
        self.routes = routes
        self.scratch = scratch
        self.on_closed = on_closed
        self.request_bytes_max = broker.settings.socket_request_max_bytes
        # A frame that has begun: its buffer, how much of it is there, how much it needs.
        self.frame: bytearray | None = None
        self.filled = 0
        self.need = 0
        # Bytes that came while a request was under way.
        self.backlog = b""
        self.out: deque[bytes | memoryview | FilePart] = deque()
        self.busy = False
        self.handling = False
        # Whole frames are being handled; answers wait for the last of them.
        self.gathering = False
        self.closed = False
        self.context: RequestContext | None = None
        self.last_active = time.monotonic()
        self.reading = True
        self.writing = False
        loop.add_reader(self.fd, self.on_readable)

    # In

    def on_readable(self) -> None:
        if self.busy:
            self._pause()
            return
        try:
            if self.need:
                self._fill_frame()
            else:
                self._fill_scratch()
        except BlockingIOError:
            return
        except OSError:
            self.close()
        except ProtocolError as error:
            self._refuse(error)

    def _pause(self) -> None:
        """Bytes came while a request waits: leave them in the kernel, but notice a hang-up."""
        try:
            gone = self.sock.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return
        except OSError:
            gone = True
        if gone:
            self.close()
            return
        self.loop.remove_reader(self.fd)
        self.reading = False

    def _fill_scratch(self) -> None:
        count = self.sock.recv_into(self.scratch)
        if count == 0:
            self.close()
            return
        self.last_active = time.monotonic()
        self._take(self.scratch, count)

    def _take(self, data: memoryview, end: int) -> None:
        """Handle the whole frames in data[:end]; their answers leave together.

        A producer has several requests under way, so that one read brings several: one send for
        all their answers costs a third less than one for each.
        """
        self.gathering = True
        try:
            self._take_frames(data, end)
        finally:
            self.gathering = False
            self._flush_gathered()
        # Muted until the client has read what the kernel does not take.
        self.busy = self.busy or bool(self.out)

    def _flush_gathered(self) -> None:
        if not self.out or self.writing:
            return
        plain = [part for part in self.out if not isinstance(part, FilePart)]
        if len(plain) == len(self.out):
            self.out = deque((b"".join(plain),))
        self._flush()

    def _take_frames(self, data: memoryview, end: int) -> None:
        """Handle the whole frames in data[:end]; keep what is left."""
        position = 0
        frames = 0
        while end - position >= 4:
            (size,) = FRAME_SIZE.unpack_from(data, position)
            self._check_size(size)
            if end - position - 4 < size:
                break
            position += 4
            self._handle(data[position : position + size])
            position += size
            frames += 1
            if self.closed:
                return
            if self.busy or frames == FRAMES_PER_TURN:
                self.backlog = bytes(data[position:end])
                if not self.busy:
                    self.loop.call_soon(self._take_backlog)
                    self.busy = True
                return
        if position < end:
            self._begin_frame(data[position:end])

    def _check_size(self, size: int) -> None:
        if 0 <= size <= self.request_bytes_max:
            return
        raise ProtocolError(
            f"a frame of {size} bytes is announced; socket.request.max.bytes allows "
            f"0 to {self.request_bytes_max}"
        )

    def _begin_frame(self, data: memoryview) -> None:
        """Keep the start of a frame. While its size is not known, only its size is needed."""
        have = len(data)
        self.need = 4 if have < 4 else 4 + FRAME_SIZE.unpack_from(data)[0]
        room = min(self.need, max(FRAME_BUFFER_BYTES_MIN, FRAME_BUFFER_GROWTH * have))
        if self.frame is None or len(self.frame) < room:
            self.frame = bytearray(room)
        self.frame[:have] = data
        self.filled = have

    def _fill_frame(self) -> None:
        frame = self.frame
        assert frame is not None
        if self.filled == len(frame):
            frame = self._grow(frame)
        with memoryview(frame) as view, view[self.filled : self.need] as room:
            count = self.sock.recv_into(room)
        if count == 0:
            self.close()
            return
        self.last_active = time.monotonic()
        self.filled += count
        if self.filled < self.need:
            return
        if self.need == 4:
            (size,) = FRAME_SIZE.unpack_from(frame)
            self._check_size(size)
            if size > 0:
                self.need = 4 + size
                return
        end, self.need, self.filled = self.need, 0, 0
        with memoryview(frame) as view:
            self._handle(view[4:end])
        if len(frame) > FRAME_BUFFER_BYTES_KEPT:
            self.frame = None

    def _grow(self, frame: bytearray) -> bytearray:
        size = max(FRAME_BUFFER_BYTES_MIN, FRAME_BUFFER_GROWTH * self.filled)
        grown = bytearray(min(self.need, size))
        grown[: self.filled] = frame
        self.frame = grown
        return grown

    def trim(self) -> None:
        """Give back the frame buffer of a connection that rests."""
        if self.need == 0:
            self.frame = None

    # Handling

    def _handle(self, frame: memoryview) -> None:
        if len(frame) < REQUEST_HEAD.size:
            raise ProtocolError(f"a request of {len(frame)} bytes has no whole header")
        api_key, version, correlation_id, client_length = REQUEST_HEAD.unpack_from(frame)
        body = REQUEST_HEAD.size + max(client_length, 0)
        if body > len(frame):
            raise ProtocolError(f"a client id of {client_length} bytes in {len(frame)}")
        route = self.routes.get(api_key)
        context = RequestContext(
            api_key,
            version,
            correlation_id,
            bytes(frame[REQUEST_HEAD.size : body]),
            self.listener,
            self.peer,
            route.counters if route is not None else self.broker.counters.request(api_key),
            time.perf_counter_ns(),
            self._send,
            self._disconnect,
        )
        self.context = context
        if route is None:
            raise ProtocolError(f"API key {api_key} is not served")
        self.busy = True
        self.handling = True
        try:
            route.counters.bytes_in += len(frame)
            self._call(route, context, frame, body)
        except ProtocolError:
            raise
        except Exception:
            # Ours, not the client's: the log has the trace, the client a closed connection, and
            # every other client goes on.
            log.exception("request failed", extra=self._about(context))
            self._close_answered()
        finally:
            self.handling = False

    def _call(self, route: Route, context: RequestContext, frame: memoryview, body: int) -> None:
        version = context.version
        if not route.version_min <= version <= route.version_max:
            route.unsupported(self.broker, context)
            return
        if version >= route.flexible_from:
            body = _skip_tags(frame, body)
        if route.raw is not None:
            route.raw(self.broker, context, frame, body)
            return
        assert route.handler is not None
        request = decode_request(context.api_key, version, frame, body)
        reply = route.handler(self.broker, context, request)
        if reply is not None:
            context.reply(reply)

    def _refuse(self, error: ProtocolError) -> None:
        extra = self._about(self.context) if self.context is not None else {"peer": self.peer}
        log.warning("closing the connection: %s", error, extra=extra)
        self.broker.counters.node.frames_refused += 1
        self._close_answered()

    def _disconnect(self) -> None:
        if self.context is not None:
            said = "closing the connection: the request failed and asked for no answer"
            log.info(said, extra=self._about(self.context))
        self._close_answered()

    def _about(self, context: RequestContext) -> dict[str, object]:
        return {
            "peer": self.peer,
            "client_id": context.client_id,
            "api": NAMES.get(context.api_key, str(context.api_key)),
            "version": context.version,
            "correlation_id": context.correlation_id,
        }

    # Out

    def _send(self, context: RequestContext, parts: Sequence[Part] | None) -> None:
        """The answer to the request under way; None when there is none to give."""
        if self.closed:
            return
        assert context is self.context, "a request is answered once"
        self.context = None
        counters = context.counters
        if parts is not None:
            try:
                self._queue(context, parts)
            except StorageError as error:
                log.error("closing the connection: %s", error, extra=self._about(context))
                self.close()
                return
        counters.answered(time.perf_counter_ns() - context.started_ns)
        if self.gathering and len(self.out) < ANSWERS_GATHERED_MAX:
            self.busy = False
            return
        if self.out and not self.writing:
            self._flush()
        if not self.out:
            self._next()

    def _queue(self, context: RequestContext, parts: Sequence[Part]) -> None:
        head = response_header(context.api_key, context.version, context.correlation_id)
        size = len(head)
        for part in parts:
            size += len(part) if isinstance(part, bytes) else part.size
        context.counters.bytes_out += size
        pending = [FRAME_SIZE.pack(size), head]
        for part in parts:
            if isinstance(part, bytes):
                pending.append(part)
            elif part.size < SENDFILE_BYTES_MIN:
                pending.append(_read_whole(part))
            else:
                self.out.append(b"".join(pending))
                self.out.append(FilePart(part))
                pending.clear()
        if pending:
            self.out.append(b"".join(pending))

    def _flush(self) -> None:
        """Hand to the kernel what it takes; wait for room if it does not take all."""
        try:
            while self.out:
                if not self._send_first():
                    break
        except BlockingIOError:
            pass
        except StorageError as error:
            # The size is announced already, so the stream is lost.
            log.error("closing the connection: %s", error, extra={"peer": self.peer})
            self.close()
            return
        except OSError:
            self.close()
            return
        if self.out and not self.writing:
            self.loop.add_writer(self.fd, self._on_writable)
            self.writing = True

    def _send_first(self) -> bool:
        """Send of the first part; True when all of it is out."""
        first = self.out[0]
        if isinstance(first, FilePart):
            sent = _send_file(self.fd, first)
            first.position += sent
            first.left -= sent
            done = first.left == 0
        else:
            flags = socket.MSG_MORE if len(self.out) > 1 else 0
            sent = self.sock.send(first, flags)
            done = sent == len(first)
            if not done:
                self.out[0] = memoryview(first)[sent:]
        if done:
            self.out.popleft()
        return done

    def _on_writable(self) -> None:
        self.last_active = time.monotonic()
        self._flush()
        if self.closed or self.out:
            return
        self.loop.remove_writer(self.fd)
        self.writing = False
        if self.context is None:
            self._next()

    def _next(self) -> None:
        """The answer is out: on to the next request, at once or when the loop comes round."""
        self.busy = False
        if self.handling or self.closed:
            return
        if self.backlog:
            self.busy = True
            self.loop.call_soon(self._take_backlog)
        elif not self.reading:
            self._resume()

    def _take_backlog(self) -> None:
        if self.closed or self.out:
            return  # What is still to be sent comes back here when it is out.
        self.busy = False
        data, self.backlog = self.backlog, b""
        try:
            self._take(memoryview(data), len(data))
        except ProtocolError as error:
            self._refuse(error)
            return
        if not (self.busy or self.closed or self.reading):
            self._resume()

    def _resume(self) -> None:
        self.loop.add_reader(self.fd, self.on_readable)
        self.reading = True

    # End

    def _close_answered(self) -> None:
        """Close on a request that is wrong; those before it have their answers."""
        self._flush_gathered()
        self.close()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        if self.reading:
            self.loop.remove_reader(self.fd)
        if self.writing:
            self.loop.remove_writer(self.fd)
        if self.context is not None and self.context.on_close is not None:
            self.context.on_close()
        self.context = None
        self.out.clear()
        self.frame = None
        self.backlog = b""
        self.sock.close()
        self.on_closed(self)


def _read_whole(part: FileSlice) -> bytes:
    data = part.file.read_at(part.position, part.size)
    if len(data) < part.size:
        raise StorageError(f"{part.file.path} ends before byte {part.position + part.size}")
    return data


def _send_file(fd: int, part: FilePart) -> int:
    try:
        sent = os.sendfile(fd, part.file.fileno(), part.position, part.left)
    except OSError as error:
        if error.errno == errno.EIO:
            raise StorageError(f"{part.file.path}: {error.strerror}") from error
        raise
    if sent == 0:
        raise StorageError(f"{part.file.path} ends before byte {part.position + part.left}")
    return sent


def _skip_tags(frame: memoryview, position: int) -> int:
    """Past the tagged fields of a flexible request header: nearly always one zero byte."""
    try:
        if frame[position] == 0:
            return position + 1
        return skip_tags(frame, position)
    except IndexError:
        raise ProtocolError("a request header is cut short") from None
