"""When a Produce may be answered: after the flush that a topic asks for, after the high watermark.

Both end at once, with an error, when leadership, disk or topic are gone.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pykraft.core.log.flushing import Flush
from pykraft.core.replication.partition import Partition
from pykraft.core.storage import StorageError
from pykraft.handlers.context import Broker
from pykraft.protocol.errors import ErrorCode
from pykraft.protocol.hot_responses import ProducePartitionReply as Reply

NS_PER_MS = 1_000_000


class Append(NamedTuple):
    """What was appended, and its place in the answer."""

    partition: Partition
    end_offset: int
    replies: list[Reply]
    at: int

    def fail(self, code: int) -> None:
        self.replies[self.at] = Reply(self.partition.index, code, -1, -1, -1)


class FlushWait:
    """Appends of one request that wait to be on the disk.

    A log has one flush at a time. Who comes while one is under way waits for its end, and then the
    first of them begins the next for all: so one sync serves everybody who came meanwhile.
    """

    __slots__ = ("_broker", "_done", "_failed", "_left")

    def __init__(
        self,
        broker: Broker,
        appends: Sequence[Append],
        failed: Callable[[int], None],
        done: Callable[[], None],
    ) -> None:
        self._broker = broker
        self._failed = failed
        self._done = done
        self._left = len(appends)
        for append in appends:
            self._wait(append)

    def _wait(self, append: Append) -> None:
        partition, log = append.partition, append.partition.log
        if log.recovery_point < append.end_offset:
            flush = log.begin_flush()
            if log.is_flushing:
                partition.when_flushed(lambda code: self._flushed(append, code))
                if flush is not None:
                    run_flush(self._broker, partition, flush)
                return
        # On the disk already; or the log is gone, and those who waited for it have been told.
        self._settle()

    def _flushed(self, append: Append, code: int) -> None:
        if code == ErrorCode.NONE:
            # It may have begun before this append.
            self._wait(append)
            return
        append.fail(code)
        self._failed(code)
        self._settle()

    def _settle(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._done()


def run_flush(broker: Broker, partition: Partition, flush: Flush) -> None:
    began_ms = broker.world.now_ms()

    def done(_: None) -> None:
        now_ms = broker.world.now_ms()
        node = broker.counters.node
        node.log_flushes += 1
        node.log_flush_ns += (now_ms - began_ms) * NS_PER_MS
        partition.log.finish_flush(flush, now_ms)

    def failed(error: BaseException) -> None:
        if not isinstance(error, StorageError):
            raise error
        partition.on_storage_error(partition, error)
        partition.fail_waiters(ErrorCode.KAFKA_STORAGE_ERROR)

    broker.world.in_worker(flush.run, done, failed)


class CommitWait:
    """Appends of one request that wait for the high watermark, or for the client's time-out."""

    __slots__ = ("_appends", "_broker", "_done", "_failed", "_left", "_timer")

    def __init__(
        self,
        broker: Broker,
        appends: Sequence[Append],
        timeout_ms: int,
        failed: Callable[[int], None],
        done: Callable[[], None],
    ) -> None:
        self._broker = broker
        self._appends = appends
        self._failed = failed
        self._done = done
        self._left = len(appends)
        broker.counters.node.produce_purgatory += 1
        self._timer = broker.world.call_later(timeout_ms, self._time_out)
        for append in appends:
            append.partition.when_committed(append.end_offset, self._settler(append))

    def _settler(self, append: Append) -> Callable[[int], None]:
        def settle(code: int) -> None:
            if self._left == 0:
                return
            if code != ErrorCode.NONE:
                append.fail(code)
                self._failed(code)
            self._left -= 1
            if self._left == 0:
                self._finish()

        return settle

    def _time_out(self) -> None:
        self._broker.counters.node.produce_expired += 1
        for append in self._appends:
            if not append.partition.is_committed(append.end_offset):
                append.fail(ErrorCode.REQUEST_TIMED_OUT)
                self._failed(ErrorCode.REQUEST_TIMED_OUT)
        self._left = 0
        self._finish()

    def _finish(self) -> None:
        self._timer.cancel()
        self._broker.counters.node.produce_purgatory -= 1
        self._done()
