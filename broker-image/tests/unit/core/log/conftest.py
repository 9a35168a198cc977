import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pykraft.core.log.config import LogConfig
from pykraft.core.log.partition_log import PartitionLog
from pykraft.records.records import Record, build_batch
from pykraft.runtime.disk import RealDisk

NOW_MS = 1_700_000_000_000

OpenLog = Callable[..., PartitionLog]
MakeBatch = Callable[..., memoryview]


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RealDisk:
    """The real one, but no test waits for a disk to turn."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)
    return RealDisk(str(tmp_path))


@pytest.fixture
def open_log(disk: RealDisk) -> OpenLog:
    """Open the log `t-0`; what is not an argument of the log is its config."""

    def make(
        *,
        clean: bool = True,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        now_ms: int = NOW_MS,
        **config: object,
    ) -> PartitionLog:
        return PartitionLog.open(
            disk,
            "t-0",
            LogConfig(**config),  # type: ignore[arg-type]
            now_ms=now_ms,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
        )

    return make


@pytest.fixture
def make_batch() -> MakeBatch:
    def make(
        count: int = 1, *, value: bytes = b"v", timestamp_ms: int = NOW_MS, **header: int
    ) -> memoryview:
        records = [Record(b"k", value)] * count
        return memoryview(build_batch(records, timestamp_ms=timestamp_ms, **header))

    return make
