"""A log directory whose disk can be made full, and free again.

A tmpfs of its own where we may mount one; elsewhere a limit on the size of the node's files, which
the log that is written to runs into.
"""

import errno
import os
import resource
import subprocess
from pathlib import Path
from typing import Protocol, Self

from processes import Node

SMALL_BYTES = 48 * 1024 * 1024
LIMIT_SLACK_BYTES = 100_000
FILLER = "filler"


class FullDisk(Protocol):
    path: Path

    def fill(self, node: Node) -> None:
        """From now on no log in this directory can grow."""

    def free(self) -> None:
        """There is room again, at the latest when the node is started anew."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def full_disk(path: Path) -> FullDisk:
    path.mkdir(parents=True)
    tmpfs = Tmpfs(path)
    return tmpfs if tmpfs.mount() else FileSizeLimit(path)


class Tmpfs:
    """ENOSPC, as a full disk gives it. Unmounted at the end, whatever happens."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def mount(self) -> bool:
        """Whether we may."""
        options = f"size={SMALL_BYTES}"
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.path)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def fill(self, node: Node) -> None:
        del node
        with (self.path / FILLER).open("wb", buffering=0) as filler:
            for size in (1 << 20, 4096, 1):
                self._write_until_full(filler.fileno(), bytes(size))

    def _write_until_full(self, fd: int, data: bytes) -> None:
        try:
            while os.write(fd, data) == len(data):
                pass
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise

    def free(self) -> None:
        (self.path / FILLER).unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Lazily, so that a node that still runs cannot keep it.
        subprocess.run(["umount", "--lazy", str(self.path)], check=True)


class FileSizeLimit:
    """EFBIG for whichever file would grow far beyond the largest there is."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fill(self, node: Node) -> None:
        # The metadata log in another directory, and what the node says, must go on growing.
        largest = max(file.stat().st_size for file in self.path.parent.rglob("*.log"))
        limit = largest + LIMIT_SLACK_BYTES
        resource.prlimit(node.pid(), resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    def free(self) -> None:
        """The limit ends with the process."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None
