"""What a broker does by the clock: flush, checkpoint, retention, producer expiry, loop lag.

Decisions are the logs' own; this module calls them at their intervals, hands what blocks to a
worker, and writes nothing when nothing changed, so that an idle node stays idle.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from pykraft.core.log.config import LONG_MAX
from pykraft.core.log.flushing import Flush
from pykraft.core.log.partition_log import PartitionLog
from pykraft.core.storage import StorageError
from pykraft.handlers.context import Broker
from pykraft.runtime.broker_metadata import BrokerMetadata
from pykraft.runtime.log_manager import LogDir, LogManager, TopicPartition

log = logging.getLogger("pykraft.housekeeping")

# Looking at the loop's lag costs one timer; twice a second shows every stall that a person would.
LAG_EVERY_S = 0.5
# How often logs are asked whether something must be flushed: segments that were rolled, and
# flush.ms and flush.messages. Bounds how long a rolled segment stays only in the page cache.
FLUSH_EVERY_S = 1.0
# Logs whose retention is checked in one go before the loop gets its turn.
LOGS_PER_TURN = 100


class Housekeeping:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        broker: Broker,
        logs: LogManager,
        metadata: BrokerMetadata,
    ) -> None:
        self.loop = loop
        self.broker = broker
        self.logs = logs
        self.metadata = metadata
        self.timers: dict[str, asyncio.TimerHandle] = {}
        # Paths of the directories in which a flush runs.
        self.flushing: set[str] = set()
        self.stopped = False

    def start(self) -> None:
        settings = self.broker.settings
        self._every("lag", LAG_EVERY_S, self._measure_lag)
        self._every("flush", FLUSH_EVERY_S, self.flush)
        self._every(
            "high watermarks",
            settings.replica_high_watermark_checkpoint_interval_ms / 1000,
            lambda: self.logs.checkpoint_high_watermarks(self.metadata.high_watermarks()),
        )
        self._every(
            "recovery points",
            settings.log_flush_offset_checkpoint_interval_ms / 1000,
            self.logs.checkpoint_recovery_points,
        )
        self._every(
            "log starts",
            settings.log_flush_start_offset_checkpoint_interval_ms / 1000,
            self.logs.checkpoint_log_starts,
        )
        self._every(
            "retention", settings.log_retention_check_interval_ms / 1000, self.enforce_retention
        )
        self._every(
            "producers",
            settings.producer_id_expiration_check_interval_ms / 1000,
            self._expire_producers,
        )

    def _every(self, name: str, seconds: float, work: Callable[[], None]) -> None:
        def run() -> None:
            if self.stopped:
                return
            work()
            self._every(name, seconds, work)

        self.timers[name] = self.loop.call_at(self.loop.time() + seconds, run)

    def stop(self) -> None:
        self.stopped = True
        for timer in self.timers.values():
            timer.cancel()

    def _measure_lag(self) -> None:
        due = self.timers["lag"].when()
        self.broker.counters.node.loop_lagged(max(0, int((self.loop.time() - due) * 1e9)))

    # Flushing: the worker syncs, the loop then moves the recovery points.

    def flush(self) -> None:
        """One job per directory, so that a thousand new logs do not fill the queue."""
        now_ms = self.broker.world.now_ms()
        for directory in self.logs.dirs:
            if not directory.online or directory.path in self.flushing:
                continue
            due = []
            for opened in directory.logs.values():
                flush = self._begin(opened) if opened.needs_flush(now_ms) else None
                if flush is not None:
                    due.append((opened, flush))
            if due:
                self._flush_all(directory, due, now_ms)

    def _begin(self, opened: PartitionLog) -> Flush | None:
        # What a roll left behind is synced soon; the active segment only when the configs say so.
        config = opened.config
        never = config.flush_messages == config.flush_ms == LONG_MAX
        return opened.begin_flush(sealed_only=never)

    def _flush_all(
        self, directory: LogDir, due: list[tuple[PartitionLog, Flush]], now_ms: int
    ) -> None:
        self.flushing.add(directory.path)
        began_ns = time.perf_counter_ns()

        def work() -> None:
            for _, flush in due:
                flush.run()

        def done(_: None) -> None:
            self.flushing.discard(directory.path)
            node = self.broker.counters.node
            node.log_flushes += len(due)
            node.log_flush_ns += time.perf_counter_ns() - began_ns
            for opened, flush in due:
                opened.finish_flush(flush, now_ms)

        def failed(error: BaseException) -> None:
            self.flushing.discard(directory.path)
            if not isinstance(error, StorageError):
                raise error
            self.logs.fail(directory, error)

        self.broker.world.in_worker(work, done, failed)

    # Retention

    def enforce_retention(self) -> None:
        self._enforce_some([(d, key) for d in self.logs.dirs if d.online for key in list(d.logs)])

    def _enforce_some(self, work: list[tuple[LogDir, TopicPartition]]) -> None:
        now_ms = self.broker.world.now_ms()
        for directory, key in work[:LOGS_PER_TURN]:
            # By name and not by object: the topic may have been deleted since the last turn.
            opened = directory.logs.get(key)
            if opened is None or not directory.online:
                continue
            try:
                doomed = opened.enforce_retention(now_ms, self._high_watermark(key))
            except StorageError as error:
                self.logs.fail(directory, error)
                continue
            self.logs.delete_segments(directory, doomed, opened.config.file_delete_delay_ms)
        rest = work[LOGS_PER_TURN:]
        if rest and not self.stopped:
            self.loop.call_soon(self._enforce_some, rest)

    def _high_watermark(self, key: TopicPartition) -> int | None:
        """What is not committed yet must not be deleted, however old it is."""
        partition = self.broker.replicas.by_name.get(key[0], {}).get(key[1])
        return partition.high_watermark if partition is not None else None

    def _expire_producers(self) -> None:
        now_ms = self.broker.world.now_ms()
        for partition in self.broker.replicas:
            partition.log.expire_producers(now_ms)
