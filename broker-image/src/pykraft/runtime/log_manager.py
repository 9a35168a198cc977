"""The log directories of a broker: loading, creating and deleting logs, checkpoints, failures.

A directory that fails goes offline as a whole: its partitions answer KAFKA_STORAGE_ERROR, the
others go on. When the last one (or the one with the metadata log) is gone, the node stops, as
Kafka's does; what was acknowledged is on the disk or was never acknowledged.
"""

import fcntl
import logging
import os
import re
import threading
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import IO

from pykraft.core.log.checkpoints import read_checkpoint, write_checkpoint
from pykraft.core.log.config import LogConfig
from pykraft.core.log.files import OpenFiles
from pykraft.core.log.partition_log import PartitionLog
from pykraft.core.storage import StorageError
from pykraft.handlers.context import LogDirectory, World
from pykraft.ids import Uuid
from pykraft.runtime.disk import RealDisk

log = logging.getLogger("pykraft.logs")

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CHECKPOINTS = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS)
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
METADATA_LOG = "__cluster_metadata-0"
FOLDER_NAME = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<index>\d+)")
DELETED_FOLDER = re.compile(r".+-\d+\.[0-9a-f]{32}-delete")
DELETED_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
# Linux allows a file name of 255 bytes; Kafka cuts the topic's name to keep within it.
FOLDER_NAME_BYTES_MAX = 255

TopicPartition = tuple[str, int]
ConfigOf = Callable[[str, Uuid, int], LogConfig | None]


@dataclass(slots=True)
class LogDir:
    path: str
    id: Uuid
    disk: RealDisk
    # Open files of older segments, shared by the logs so that the bound holds for all.
    files: OpenFiles
    online: bool = True
    was_clean: bool = False
    logs: dict[TopicPartition, PartitionLog] = field(default_factory=dict)
    # What each checkpoint file says, or will say when the writer that is under way has ended:
    # a writer takes the newest, under the lock, so that an old state never comes last.
    latest: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    writing: set[str] = field(default_factory=set)
    write_lock: threading.Lock = field(default_factory=threading.Lock)

    def write(self, path: str) -> None:
        with self.write_lock:
            write_checkpoint(self.disk, path, self.latest[path])


class DirectoryInUse(Exception):
    """Another process has the log directory."""


def lock_directory(path: str) -> IO[str]:
    """Take `.lock` the way Kafka does, so that neither starts on the other's directory."""
    lock = open(os.path.join(path, ".lock"), "a")  # noqa: SIM115 - held as long as the node runs
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise DirectoryInUse(
            f"log directory {path} is in use by another process; stop it or choose other log.dirs"
        ) from error
    return lock


class LogManager:
    """`trash` is the world that deletes files: slowly, and in nobody's way."""

    def __init__(
        self,
        dirs: list[LogDir],
        world: World,
        trash: World,
        on_offline: Callable[[LogDir, StorageError], None],
        new_jitter: Callable[[int], int],
        producer_expiration_ms: int,
    ) -> None:
        self.producer_expiration_ms = producer_expiration_ms
        self.dirs = dirs
        self.world = world
        self.trash = trash
        self.on_offline = on_offline
        self.new_jitter = new_jitter

    # Loading

    def read_checkpoints(self) -> None:
        for directory in self.dirs:
            directory.was_clean = directory.disk.exists(CLEAN_SHUTDOWN)
            for path in CHECKPOINTS:
                directory.latest[path] = read_checkpoint(directory.disk, path)

    def load(self, config_of: ConfigOf) -> int:
        """Open every log; `config_of` says None of a log that the metadata do not know.

        A directory that fails goes offline, and the others are served.
        """
        for directory in self.dirs:
            try:
                self._load_directory(directory, config_of)
            except StorageError as error:
                self.fail(directory, error)
        return sum(len(directory.logs) for directory in self.dirs)

    def _load_directory(self, directory: LogDir, config_of: ConfigOf) -> None:
        for name in directory.disk.list():
            if name == METADATA_LOG or not directory.disk.is_dir(name):
                continue
            if DELETED_FOLDER.fullmatch(name):
                self._delete_later(directory, name, 0)
                continue
            match = FOLDER_NAME.fullmatch(name)
            if match is not None:
                self._load_one(directory, match["topic"], int(match["index"]), config_of)
            elif not name.endswith(STRAY_SUFFIX):
                log.warning("folder %s in %s is not a log; left alone", name, directory.path)
        for path in CHECKPOINTS:
            # As Kafka: they are there from the first start on.
            if not directory.disk.exists(path):
                directory.write(path)
        # The next start is clean only if this run ends cleanly.
        directory.disk.delete(CLEAN_SHUTDOWN)
        directory.disk.sync_dir()

    def _load_one(
        self,
        directory: LogDir,
        topic: str,
        index: int,
        config_of: ConfigOf,
    ) -> None:
        name = f"{topic}-{index}"
        topic_id = PartitionLog.read_topic_id(directory.disk, name)
        config = config_of(topic, topic_id, index) if topic_id is not None else None
        if config is None:
            # Never deleted: it may be the only copy of something that somebody needs.
            stray = folder_name(topic, index, STRAY_SUFFIX)
            log.warning("log %s is not in the metadata; renamed to %s", name, stray)
            directory.disk.rename(name, stray)
            return
        key = (topic, index)
        self._open(
            directory,
            key,
            config,
            topic_id,
            clean=directory.was_clean,
            recovery_point=directory.latest[RECOVERY_POINTS].get(key, 0),
            log_start_offset=directory.latest[LOG_STARTS].get(key, 0),
        )

    def _open(
        self,
        directory: LogDir,
        key: TopicPartition,
        config: LogConfig,
        topic_id: Uuid | None,
        *,
        clean: bool,
        recovery_point: int = 0,
        log_start_offset: int = 0,
    ) -> PartitionLog:
        opened = PartitionLog.open(
            directory.disk,
            f"{key[0]}-{key[1]}",
            config,
            now_ms=self.world.now_ms(),
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            topic_id=topic_id,
            new_jitter=self.new_jitter,
            files=directory.files,
            producer_expiration_ms=self.producer_expiration_ms,
        )
        if opened.recovered is not None:
            log.warning("recovered %s: %s", opened.name, opened.recovered)
        directory.logs[key] = opened
        return opened

    # Logs

    def find(self, topic: str, index: int) -> tuple[LogDir, PartitionLog] | None:
        for directory in self.dirs:
            opened = directory.logs.get((topic, index))
            if opened is not None:
                return directory, opened
        return None

    def create(
        self, topic: str, index: int, topic_id: Uuid, config: LogConfig, assigned: Uuid | None
    ) -> tuple[LogDir, PartitionLog]:
        """A new log in its assigned directory, or in the one that has the fewest.

        Raises StorageError, also when the assigned directory is offline: the log is there, and an
        empty one elsewhere would hide it.
        """
        directory = self._choose(assigned)
        key = (topic, index)
        try:
            self._forget_namesakes(directory, key)
            return directory, self._open(directory, key, config, topic_id, clean=True)
        except StorageError as error:
            self.fail(directory, error)
            raise

    def _choose(self, assigned: Uuid | None) -> LogDir:
        for directory in self.dirs:
            if directory.id == assigned:
                if not directory.online:
                    raise StorageError(f"log directory {directory.path} is offline")
                return directory
        online = [directory for directory in self.dirs if directory.online]
        if not online:
            raise StorageError("no log directory is online")
        return min(online, key=lambda each: len(each.logs))

    def _forget_namesakes(self, directory: LogDir, key: TopicPartition) -> None:
        """A deleted topic of the same name may still be in the checkpoints.

        After a crash its offsets would be taken for those of the new log, and cut it. So they go,
        synced, before the new log exists; all of them at once, since a topic has many partitions.
        """
        for path in CHECKPOINTS:
            known = directory.latest.get(path, {})
            if key in known:
                directory.latest[path] = {k: v for k, v in known.items() if k in directory.logs}
                directory.write(path)

    def remove(self, topic: str, index: int) -> None:
        """Take a log out of service; its files go after file.delete.delay.ms."""
        found = self.find(topic, index)
        if found is None:
            return
        directory, opened = found
        del directory.logs[topic, index]
        doomed = folder_name(topic, index, DELETED_SUFFIX)
        try:
            opened.close(clean=False)
            directory.disk.rename(opened.name, doomed)
        except StorageError as error:
            self.fail(directory, error)
            return
        self._delete_later(directory, doomed, opened.config.file_delete_delay_ms)

    def _delete_later(self, directory: LogDir, path: str, delay_ms: int) -> None:
        def delete() -> None:
            if directory.online:
                self.trash.in_worker(
                    lambda: directory.disk.delete(path),
                    _ignore,
                    lambda e: self._failed(directory, e),
                )

        self.trash.call_later(delay_ms, delete)

    def delete_segments(self, directory: LogDir, paths: Iterable[str], delay_ms: int) -> None:
        for path in paths:
            self._delete_later(directory, path, delay_ms)

    # Failures

    def dir_of(self, opened: PartitionLog) -> LogDir | None:
        for directory in self.dirs:
            if any(candidate is opened for candidate in directory.logs.values()):
                return directory
        return None

    def _failed(self, directory: LogDir, error: BaseException) -> None:
        if not isinstance(error, StorageError):
            raise error
        self.fail(directory, error)

    def fail(self, directory: LogDir, error: StorageError) -> None:
        if not directory.online:
            return
        directory.online = False
        log.error("log directory %s goes offline: %s", directory.path, error)
        self.on_offline(directory, error)

    # Checkpoints

    def checkpoint_recovery_points(self) -> None:
        for directory in self.dirs:
            self._write_if_new(directory, RECOVERY_POINTS, _recovery_points(directory))

    def checkpoint_log_starts(self) -> None:
        for directory in self.dirs:
            self._write_if_new(directory, LOG_STARTS, _log_starts(directory))

    def checkpoint_high_watermarks(self, marks: dict[TopicPartition, int]) -> None:
        for directory in self.dirs:
            own = {key: marks[key] for key in directory.logs if key in marks}
            self._write_if_new(directory, HIGH_WATERMARKS, own)

    def _write_if_new(
        self, directory: LogDir, path: str, offsets: dict[TopicPartition, int]
    ) -> None:
        """A worker writes and syncs; nothing is written when nothing changed.

        One writer per file: a disk that is slower than the interval is not asked twice.
        """
        if not directory.online or path in directory.writing:
            return
        if directory.latest.get(path) == offsets:
            return
        directory.latest[path] = offsets
        directory.writing.add(path)
        self.world.in_worker(
            lambda: directory.write(path),
            lambda _: directory.writing.discard(path),
            lambda error: self._failed(directory, error),
        )

    def describe(self) -> list[LogDirectory]:
        found = []
        for directory in self.dirs:
            total = usable = -1
            if directory.online:
                total, usable = self._space(directory)
            names = frozenset(f"{topic}-{index}" for topic, index in directory.logs)
            found.append(
                LogDirectory(directory.path, directory.id, directory.online, total, usable, names)
            )
        return found

    def _space(self, directory: LogDir) -> tuple[int, int]:
        try:
            stat = os.statvfs(directory.path)
        except OSError as error:
            self.fail(directory, StorageError(f"{directory.path}: {error.strerror}"))
            return -1, -1
        return stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize

    # The end

    def close(self, broker_epoch: int, high_watermarks: dict[TopicPartition, int]) -> None:
        """Flush and close every log, then say that this was a clean shutdown."""
        for directory in self.dirs:
            if not directory.online:
                continue
            try:
                self._close_directory(directory, broker_epoch, high_watermarks)
            except StorageError as error:
                log.error("log directory %s is not closed cleanly: %s", directory.path, error)

    def _close_directory(
        self, directory: LogDir, broker_epoch: int, high_watermarks: dict[TopicPartition, int]
    ) -> None:
        for opened in directory.logs.values():
            opened.close(clean=True)
        marks = {k: v for k, v in high_watermarks.items() if k in directory.logs}
        directory.latest[RECOVERY_POINTS] = _recovery_points(directory)
        directory.latest[LOG_STARTS] = _log_starts(directory)
        directory.latest[HIGH_WATERMARKS] = marks
        for path in CHECKPOINTS:
            directory.write(path)
        said = f'{{"version":0,"brokerEpoch":{broker_epoch}}}'
        directory.disk.write_atomically(CLEAN_SHUTDOWN, said.encode())


def _recovery_points(directory: LogDir) -> dict[TopicPartition, int]:
    return {key: opened.recovery_point for key, opened in directory.logs.items()}


def _log_starts(directory: LogDir) -> dict[TopicPartition, int]:
    """As Kafka: only where the first segment does not already say it."""
    return {
        key: opened.log_start_offset
        for key, opened in directory.logs.items()
        if opened.log_start_offset > opened.first_segment_offset
    }


def folder_name(topic: str, index: int, suffix: str) -> str:
    """Kafka's name of a folder that is to go: `<topic>-<index>.<random hex><suffix>`."""
    tail = f"-{index}.{uuid.uuid4().hex}{suffix}"
    return topic[: FOLDER_NAME_BYTES_MAX - len(tail)] + tail


def _ignore(_: object) -> None:
    return None
