"""The log of one partition: append, read, look up, roll, truncate, delete, flush, close.

Single-threaded: all is called from the loop. Only what `begin_flush` returns runs elsewhere.
"""

from bisect import bisect_right
from collections.abc import Callable

from crc32c import crc32c

from pykraft.core.log import recovery, validation
from pykraft.core.log.config import LogConfig
from pykraft.core.log.epochs import LeaderEpochs
from pykraft.core.log.files import OpenFiles
from pykraft.core.log.flushing import Flush, Unsynced
from pykraft.core.log.partition_metadata import ensure_topic_id, metadata_path, read_topic_id
from pykraft.core.log.producer_snapshots import (
    SnapshotFiles,
    coordinator_epoch,
    load_producers,
)
from pykraft.core.log.producer_state import (
    EXPIRATION_MS,
    SEQUENCE_MASK,
    ProducedBatch,
    ProducerState,
)
from pykraft.core.log.reading import LogReader
from pykraft.core.log.recovery import LoadedSegments, SegmentOpener
from pykraft.core.log.retention import count_deletable
from pykraft.core.log.segment import (
    BASE_OFFSET_MAX,
    LOG,
    NEVER,
    RELATIVE_OFFSET_MAX,
    SNAPSHOT,
    ActiveSegment,
    Segment,
)
from pykraft.core.log.segments import FileSlice, Segments
from pykraft.core.log.stamping import STAMP, STAMP_BYTES, TIMED_BYTES, Appended, stamp_time
from pykraft.core.log.validation import check_at_once, cut_to_first, cut_to_one_batch, refuse
from pykraft.core.storage import Disk
from pykraft.ids import ZERO_UUID, Uuid
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
    RECORD_BYTES_MIN,
    TRANSACTIONAL,
    BatchHeader,
)
from pykraft.records.compression import ZSTD

__all__ = ["Appended", "FileSlice", "PartitionLog"]

# Anything above ZSTD in these bits is refused: codecs there are not, and what is for brokers only.
CODEC_OR_MARKED = CODEC_MASK | CONTROL | TRANSACTIONAL
# For a log that was not given a share in its directory's.
OWN_OPEN_FILES_MAX = 8


class PartitionLog(LogReader):
    """Invariants: log_start_offset <= log_end_offset; recovery_point <= log_end_offset;
    segments are in order, the last is the active one, and there is always one."""

    __slots__ = (
        "_after_ms",
        "_before_ms",
        "_disk",
        "_max_message_bytes",
        "_opener",
        "_scans_records",
        "_segment_bytes",
        "_snapshots",
        "_stamps_time",
        "_target_codec",
        "_unsynced",
        "closed",
        "config",
        "leader_epochs",
        "producers",
        "recompresses",
        "recovered",
        "size",
        "topic_id",
    )

    def __init__(
        self,
        opener: SegmentOpener,
        loaded: LoadedSegments,
        *,
        epochs: LeaderEpochs,
        snapshots: SnapshotFiles,
        producers: ProducerState,
        log_start_offset: int,
        recovery_point: int,
        now_ms: int,
    ) -> None:
        self.name = opener.folder
        self.topic_id = ZERO_UUID
        self.leader_epochs = epochs
        self.producers = producers
        self.log_start_offset = log_start_offset
        # One line on what opening had to cut, drop or rebuild; None when all was as it should be.
        self.recovered = loaded.report.describe()
        # Its files may belong to others by now: nothing is written any more.
        self.closed = False
        self._disk = opener.files.disk
        self._opener = opener
        self._snapshots = snapshots
        self._unsynced = Unsynced(
            self._disk, loaded.unflushed, recovery_point=recovery_point, now_ms=now_ms
        )
        self._segments = Segments(loaded.sealed, loaded.active, loaded.end_offset)
        self.size = self._segments.size
        self.log_end_offset = loaded.end_offset
        self.configure(opener.config)

    # Opening

    @classmethod
    def open(
        cls,
        disk: Disk,
        name: str,
        config: LogConfig,
        *,
        now_ms: int,
        clean: bool,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        topic_id: Uuid | None = None,
        new_jitter: Callable[[int], int] = lambda limit_ms: 0,
        files: OpenFiles | None = None,
        producer_expiration_ms: int = EXPIRATION_MS,
        gapless: bool = False,
    ) -> "PartitionLog":
        """Open or create the log in folder `name`; recover it unless the last stop was clean.

        `gapless`: a record may be missing only together with all that follow it.
        """
        if files is None:
            files = OpenFiles(disk, OWN_OPEN_FILES_MAX)
        opener = SegmentOpener(files, name, config, new_jitter)
        names = recovery.list_folder(disk, name)
        epochs = LeaderEpochs.load(disk, name)
        snapshots = SnapshotFiles(disk, name, recovery.offsets_of(names, SNAPSHOT))
        bases = recovery.offsets_of(names, LOG)
        if clean or not bases:
            loaded = recovery.load_clean(opener, bases, log_start_offset, now_ms)
        else:
            loaded = recovery.load_unclean(
                opener, bases, recovery_point, epochs, now_ms, gapless=gapless
            )
        log_start_offset = max(log_start_offset, loaded.base_offset)
        if log_start_offset > loaded.end_offset:
            # The end was lost, and DeleteRecords had been further than what is left.
            loaded = recovery.start_over(opener, loaded, log_start_offset, now_ms)
        self = cls(
            opener,
            loaded,
            epochs=epochs,
            snapshots=snapshots,
            producers=ProducerState(producer_expiration_ms),
            log_start_offset=log_start_offset,
            recovery_point=min(recovery_point, loaded.end_offset),
            now_ms=now_ms,
        )
        self._settle_files(topic_id, is_new=not bases, clean=clean)
        if snapshots.delete_after(loaded.report.last_sure_offset(loaded.end_offset)):
            # Were it to come back, it would speak of batches that others have replaced.
            disk.sync_dir(name)
        # After a loss, the snapshot that is missing may be one that spoke of what was lost.
        self._load_producers(now_ms, believe_absence=clean and not loaded.report.is_lossy)
        snapshots.delete_stray(self._segments.bases)
        return self

    def _settle_files(self, topic_id: Uuid | None, *, is_new: bool, clean: bool) -> None:
        """Bring the files beside the segments in line with them."""
        if is_new:
            self._unsynced.folders.update(("", self.name))
        self.topic_id, is_written = ensure_topic_id(self._disk, self.name, topic_id)
        if is_written or not clean:
            self._unsynced.paths.add(metadata_path(self.name))
            self._unsynced.folders.add(self.name)
        epochs = self.leader_epochs
        if not epochs.is_known and self.size:
            recovery.rebuild_epochs(epochs, self._segments.all)
        if not clean:
            # The last process may have written these and left it to the kernel when.
            epochs.unsynced = True
            self._unsynced.folders.update(("", self.name))
        if not clean or (epochs.entries and epochs.entries[-1][1] > self.log_end_offset):
            epochs.truncate_from_end(self.log_end_offset)
        epochs.truncate_from_start(self.log_start_offset)
        if epochs.unsynced:
            epochs.save()

    @staticmethod
    def read_topic_id(disk: Disk, name: str) -> Uuid | None:
        """What `partition.metadata` says; None when it is absent or damaged."""
        return read_topic_id(disk, name)

    def _load_producers(self, now_ms: int, *, believe_absence: bool) -> None:
        written = load_producers(
            self.producers,
            self._snapshots,
            self._segments.all,
            self.log_end_offset,
            now_ms=now_ms,
            believe_absence=believe_absence,
        )
        self._unsynced.paths.update(written)

    def configure(self, config: LogConfig) -> None:
        """Also while running; the next batch is held to it."""
        self.config = config
        self._opener.config = config
        self._max_message_bytes = config.max_message_bytes
        self._segment_bytes = config.segment_bytes
        self._segments.active.set_segment_ms(config.segment_ms)
        self._stamps_time = config.message_timestamp_type == "LogAppendTime"
        self._after_ms = NEVER if self._stamps_time else config.message_timestamp_after_max_ms
        self._before_ms = NEVER if self._stamps_time else config.message_timestamp_before_max_ms
        self._scans_records = config.compacts
        self._target_codec = config.target_codec
        self.recompresses = self._target_codec is not None

    # Appending

    def append(
        self, records: memoryview, *, leader_epoch: int, now_ms: int, checked: bool = False
    ) -> Appended:
        """Append one batch from a client, as leader. Raises KafkaError, StorageError.

        The hot path: one unpack, one checksum, one write, no copy, nothing per record. On any error
        the log is as it was. RecordsUncheckedError asks for `check_records` in a worker and then
        for this again, with `checked`.
        """
        size = len(records)
        if size < HEADER_BYTES:
            cut_to_one_batch(records)
        header = HEADER.unpack_from(records)
        (base_offset, length, _, magic, crc, attributes, last_delta, base_timestamp) = header[:8]
        (max_timestamp, producer_id, producer_epoch, base_sequence, count) = header[8:]
        if length + LOG_OVERHEAD_BYTES != size:
            whole = cut_to_one_batch(records)
            return self.append(whole, leader_epoch=leader_epoch, now_ms=now_ms, checked=checked)
        if (
            magic != MAGIC
            or base_offset != 0
            or size > self._max_message_bytes
            or crc32c(records[ATTRIBUTES_AT:]) != crc
            or count != last_delta + 1
            or count <= 0
            or attributes & CODEC_OR_MARKED > ZSTD
            or base_sequence < 0 <= producer_id
            or (
                count * RECORD_BYTES_MIN > size - HEADER_BYTES
                and validation.overstates(attributes, count)
            )
        ):
            refuse(records, self._max_message_bytes)
        if (
            self._scans_records
            or max_timestamp > now_ms + self._after_ms
            or base_timestamp < now_ms - self._before_ms
            or (self._stamps_time and attributes & LOG_APPEND_TIME)
        ) and not checked:
            check_at_once(records, self.config, now_ms, self.name)
        if size > self._segment_bytes:
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, f"{size} bytes exceed a segment")
        if producer_id < 0:
            return self._write(records, last_delta, max_timestamp, leader_epoch, now_ms)
        known = self.producers.check(producer_id, producer_epoch, base_sequence, last_delta)
        if known is not None:
            return self._duplicate(known)
        appended = self._write(records, last_delta, max_timestamp, leader_epoch, now_ms)
        stored_timestamp = now_ms if self._stamps_time else max_timestamp
        last_sequence = (base_sequence + last_delta) & SEQUENCE_MASK
        batch = ProducedBatch(last_sequence, appended[1], last_delta, stored_timestamp)
        self.producers.add(producer_id, producer_epoch, batch, attributes)
        return appended

    def _write(
        self,
        records: memoryview,
        last_delta: int,
        max_timestamp: int,
        leader_epoch: int,
        now_ms: int,
    ) -> Appended:
        """Stamp a batch that has been checked, and write it."""
        size = len(records)
        first_offset = self.log_end_offset
        last_offset = first_offset + last_delta
        stamped = -1
        if self._stamps_time:
            stamped = max_timestamp = now_ms
        segments = self._segments
        segment = segments.active
        if (
            size > self._segment_bytes - segment.size
            or max_timestamp > segment.roll_timestamp
            or now_ms > segment.roll_now_ms
            or segment.full
            or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
        ):
            self.roll(now_ms)
            segment = segments.active
        if leader_epoch != self.leader_epochs.latest:
            self.leader_epochs.assign(leader_epoch, first_offset)
        position = segment.size
        if stamped < 0:
            head: bytes | bytearray = STAMP.pack(
                first_offset, size - LOG_OVERHEAD_BYTES, leader_epoch
            )
            segment.append((head, records[STAMP_BYTES:]), size, last_offset, max_timestamp)
        else:
            head = stamp_time(records, first_offset, leader_epoch, now_ms)
            segment.append((head, records[TIMED_BYTES:]), size, last_offset, max_timestamp)
        self.log_end_offset = last_offset + 1
        self.size += size
        segments.tail_offset = first_offset
        segments.tail_position = position
        return Appended(first_offset, last_offset, stamped, self.log_start_offset, False)

    def _duplicate(self, known: ProducedBatch) -> Appended:
        return Appended(
            known.first_offset, known.last_offset, known.timestamp_ms, self.log_start_offset, True
        )

    def append_with_offsets(self, batches: memoryview, *, now_ms: int) -> int:
        """Append batches that have their offsets and epochs: the metadata log's, a leader's.

        Returns the offset after the last. Raises CORRUPT_MESSAGE for a batch that is wrong, after
        those before it have been appended.
        """
        position = 0
        while position < len(batches):
            batch = cut_to_first(batches[position:])
            header = BatchHeader._make(HEADER.unpack_from(batch))
            if (
                header.base_offset < self.log_end_offset
                or header.last_offset_delta < 0
                or header.base_offset > BASE_OFFSET_MAX
            ):
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"offsets {header.base_offset} to {header.last_offset},"
                    f" but {self.name} ends at {self.log_end_offset}",
                )
            self._append_stamped(batch, header, now_ms)
            position += header.size
        return self.log_end_offset

    def _append_stamped(self, batch: memoryview, header: BatchHeader, now_ms: int) -> None:
        segments = self._segments
        segment = segments.active
        if (
            (segment.size and header.size > self._segment_bytes - segment.size)
            or header.max_timestamp > segment.roll_timestamp
            or now_ms > segment.roll_now_ms
            or segment.full
            or header.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
        ):
            self.roll(now_ms, header.base_offset)
            segment = segments.active
        if header.leader_epoch > self.leader_epochs.latest:
            self.leader_epochs.assign(header.leader_epoch, header.base_offset)
        position = segment.size
        segment.append((batch,), header.size, header.last_offset, header.max_timestamp)
        self.log_end_offset = header.last_offset + 1
        self.size += header.size
        segments.tail_offset = header.base_offset
        segments.tail_position = position
        if header.producer_id >= 0:
            self.producers.observe(header, coordinator_epoch(batch, header))

    def needs_recompression(self, records: memoryview) -> bool:
        """Does the topic want another codec than the batch has? Then a worker recompresses it."""
        if self._target_codec is None or len(records) < HEADER_BYTES:
            return False
        return records[ATTRIBUTES_AT + 1] & CODEC_MASK != self._target_codec

    def assign_epoch(self, leader_epoch: int) -> None:
        """We lead from here on."""
        assert not self.closed, self.name
        if leader_epoch > self.leader_epochs.latest:
            self.leader_epochs.assign(leader_epoch, self.log_end_offset)

    @property
    def recovery_point(self) -> int:
        """All before it is on the disk, and is believed after a crash."""
        return self._unsynced.recovery_point

    # Rolling

    def roll(self, now_ms: int, base_offset: int | None = None) -> None:
        """Seal the active segment and begin a new one at the log's end."""
        assert not self.closed, self.name
        base_offset = self.log_end_offset if base_offset is None else base_offset
        active = self._segments.active
        if active.size == 0 and base_offset == active.base_offset:
            return
        # Before the recovery point everything is believed after a crash, the indexes too. Mostly
        # the recovery point is far behind, and the flush that follows a roll syncs them.
        active.finish(sync=self.recovery_point >= base_offset)
        self.producers.end_offset = base_offset
        self._take_snapshot(base_offset)
        created = self._opener.create(base_offset, now_ms)
        # From here on nothing fails.
        sealed = active.seal()
        self._segments.roll(sealed, created)
        self._unsynced.segments.append(sealed)

    def _take_snapshot(self, offset: int) -> None:
        if offset > self._snapshots.latest:
            self._unsynced.paths.add(self._snapshots.write(self.producers, offset))
        self._unsynced.folders.add(self.name)

    # Shortening

    def delete_records_before(self, offset: int) -> None:
        """Move the log start; the segments before it go with the next retention."""
        assert not self.closed, self.name
        if offset > self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is after the end of {self.name}"
            )
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.leader_epochs.truncate_from_start(offset)

    def enforce_retention(self, now_ms: int, high_watermark: int | None = None) -> list[str]:
        """Take what is too old or too much out of the log; the files, for the caller to delete."""
        assert not self.closed, self.name
        segments = self._segments
        count = count_deletable(
            segments.all,
            self.config,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            high_watermark=self.log_end_offset if high_watermark is None else high_watermark,
            now_ms=now_ms,
        )
        if count == 0:
            return []
        if count == len(segments.all):
            self.roll(now_ms)
        gone = segments.drop(count)
        self.size -= sum(segment.size for segment in gone)
        self._unsynced.forget(gone)
        self.delete_records_before(segments.bases[0])
        self._unsynced.folders.add(self.name)
        return self._mark_deleted(gone)

    def _mark_deleted(self, gone: list[Segment]) -> list[str]:
        renamed = []
        for segment in gone:
            renamed += segment.mark_deleted()
            self._snapshots.forget(segment.base_offset)
        return renamed

    def truncate_to(self, end_offset: int, *, now_ms: int) -> list[str]:
        """Cut the log so that it ends at `end_offset`; whole batches go. Files to be deleted.

        Synced before it returns, because the old end must not come back after a crash.
        """
        assert not self.closed, self.name
        if end_offset >= self.log_end_offset:
            return []
        segments = self._segments
        if end_offset < segments.bases[0]:
            return self.truncate_fully_and_start_at(end_offset, now_ms=now_ms)
        self._unsynced.cut(end_offset)
        at = bisect_right(segments.bases, end_offset) - 1
        kept, gone = segments.all[:at], segments.all[at + 1 :]
        active = self._reopen(segments.all[at], now_ms)
        renamed = self._mark_deleted(gone)
        found = active.find(end_offset)
        if found is not None:
            end_offset = min(end_offset, found[1].base_offset)
            active.truncate(found[0], end_offset)
        self._unsynced.forget(segments.all[at:])
        self._replace(kept, active, end_offset, now_ms)
        return renamed

    def _reopen(self, segment: Segment, now_ms: int) -> ActiveSegment:
        if segment is self._segments.active:
            return self._segments.active
        active = self._opener.open_active(segment.base_offset, now_ms)
        if active.resume() is None:
            active.recover(lambda header: None)
        return active

    def truncate_fully_and_start_at(self, offset: int, *, now_ms: int) -> list[str]:
        """Throw everything away and go on at `offset`. Files to be deleted."""
        assert not self.closed, self.name
        self._unsynced.cut(0)
        renamed = self._mark_deleted(self._segments.all)
        created = self._opener.create(offset, now_ms)
        self._unsynced.forget(self._segments.all)
        self.log_start_offset = self._unsynced.recovery_point = offset
        self.leader_epochs.truncate_from_end(0)
        self._snapshots.delete_after(-1)
        self._replace([], created, offset, now_ms)
        return renamed

    def _replace(
        self, sealed: list[Segment], active: ActiveSegment, end_offset: int, now_ms: int
    ) -> None:
        self._segments.set(sealed, active, end_offset)
        self.size = self._segments.size
        self.log_end_offset = end_offset
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self._unsynced.recovery_point = min(self.recovery_point, end_offset)
        self.leader_epochs.truncate_from_end(end_offset)
        self._load_producers(now_ms, believe_absence=False)
        active.file.sync()
        self._disk.sync_dir(self.name)

    # Flushing and closing

    def needs_flush(self, now_ms: int) -> bool:
        """Is one due: a sealed segment or an epoch waits, or a limit of the topic is reached?"""
        if self.closed:
            return False
        return self.leader_epochs.unsynced or self._unsynced.is_due(
            self.log_end_offset, self.config, now_ms
        )

    def begin_flush(self, *, sealed_only: bool = False) -> Flush | None:
        """What a worker has to sync, up to the log's end or to that of the last sealed segment.
        None also while another flush is under way: `on_flushed` tells of its end."""
        if self.closed or self._unsynced.under_way:
            return None
        end_offset = self._segments.active.base_offset if sealed_only else self.log_end_offset
        if self.leader_epochs.unsynced:
            self.leader_epochs.unsynced = False
            self._unsynced.paths.add(self.leader_epochs.path)
            self._unsynced.folders.add(self.name)
        if end_offset <= self.recovery_point and not self._unsynced:
            return None
        return self._unsynced.take(end_offset, None if sealed_only else self._segments.active.file)

    def finish_flush(self, flush: Flush, now_ms: int) -> None:
        """`flush.run` has returned: all before its end survives a power failure."""
        self._unsynced.finish(flush, now_ms)

    def on_flushed(self, callback: Callable[[], None]) -> None:
        """Call back whenever a flush has ended well."""
        self._unsynced.on_finished = callback

    @property
    def is_flushing(self) -> bool:
        return self._unsynced.under_way is not None

    def expire_producers(self, now_ms: int) -> int:
        return self.producers.expire(now_ms)

    def close(self, *, clean: bool) -> None:
        """A clean close completes the indexes, keeps the producers, and syncs it all.

        The active file closes when the last who sends from it is done.
        """
        if self.closed:
            return
        if clean:
            self._complete_files()
        self.closed = True
        # The next append would roll first, which is where `closed` costs the append path nothing.
        self._segments.active.full = True
        for segment in self._segments.all:
            for path in segment.file_names():
                self._opener.files.forget(path)

    def _complete_files(self) -> None:
        self._segments.active.finish(sync=True)
        self.producers.end_offset = self.log_end_offset
        if self.log_end_offset > max(self._snapshots.latest, self._segments.bases[0]):
            self._take_snapshot(self.log_end_offset)
        self._snapshots.delete_stray(self._segments.bases)
        self._unsynced.run_under_way()
        flush = self.begin_flush()
        if flush is not None:
            flush.run()
            self._unsynced.recovery_point = self.log_end_offset
