"""Where each leader epoch began: the file `leader-epoch-checkpoint`.

A follower or a client that knows an epoch asks how far it went; the answer is where the next one
began (KIP-101, KIP-320). Invariant: epochs and start offsets both grow strictly.
"""

from bisect import bisect_left, bisect_right

from pykraft.core.log.checkpoints import encode_lines, read_lines
from pykraft.core.storage import Disk, StorageError

FILE_NAME = "leader-epoch-checkpoint"
UNDEFINED = (-1, -1)


class LeaderEpochs:
    __slots__ = ("_disk", "_epochs", "_starts", "is_known", "latest", "path", "unsynced")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self._epochs: list[int] = []
        self._starts: list[int] = []
        # The newest epoch, -1 without any; the append path compares with it.
        self.latest = -1
        # False when the file is absent or damaged: the batches of the log say it, too.
        self.is_known = True
        # The file was written and a flush has yet to sync it.
        self.unsynced = False

    @classmethod
    def load(cls, disk: Disk, folder: str) -> "LeaderEpochs":
        self = cls(disk, f"{folder}/{FILE_NAME}")
        lines = read_lines(disk, self.path)
        self.is_known = lines is not None
        for line in lines or ():
            epoch, _, start = line.partition(" ")
            if not (epoch.isdecimal() and start.isdecimal()):
                self.is_known = False
                self._keep(0)
                break
            self._put(int(epoch), int(start))
        return self

    @property
    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> bool:
        """`epoch` begins at `start_offset`, unless it is known already. True when that is news."""
        if self._epochs and epoch <= self.latest and start_offset >= self._starts[-1]:
            return False
        before = self.entries
        self._put(epoch, start_offset)
        try:
            self._write()
        except StorageError:
            # As it was, or the next append would believe that the file has it.
            self._keep(0)
            for known in before:
                self._put(*known)
            raise
        return True

    def observe(self, epoch: int, base_offset: int) -> None:
        """A batch of a log that is being scanned. Written by `save`, not once per epoch."""
        if epoch > self.latest:
            self._put(epoch, base_offset)
            self.unsynced = True

    def epoch_for(self, offset: int) -> int:
        """The epoch of the leader that wrote `offset`, -1 when unknown."""
        at = bisect_right(self._starts, offset)
        return self._epochs[at - 1] if at else -1

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch not above `epoch`, and where it ended (OffsetForLeaderEpoch)."""
        if epoch == UNDEFINED[0] or epoch > self.latest or not self._epochs:
            return UNDEFINED
        if epoch == self.latest:
            return epoch, log_end_offset
        higher = bisect_right(self._epochs, epoch)
        if higher == 0:
            # Older than all we know: it ended at or before the first that we do know.
            return epoch, self._starts[0]
        return self._epochs[higher - 1], self._starts[higher]

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget the epochs that began at or after `end_offset`."""
        keep = bisect_left(self._starts, end_offset)
        if keep < len(self._starts):
            self._keep(keep)
            self._write()

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget the epochs that ended before `start_offset`; the one it lies in begins there."""
        first = bisect_right(self._starts, start_offset) - 1
        if first < 0 or (first == 0 and self._starts[0] == start_offset):
            return
        self._epochs = self._epochs[first:]
        self._starts = [start_offset, *self._starts[first + 1 :]]
        self._write()

    def forget_from(self, offset: int) -> None:
        """Before the batches from there on are observed again. Written by `save`: a file that says
        half of it would be believed after a crash."""
        self._keep(bisect_left(self._starts, offset))
        self.unsynced = True

    def save(self) -> None:
        self._write()

    def _put(self, epoch: int, start_offset: int) -> None:
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._starts, start_offset))
        self._keep(keep)
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.latest = epoch

    def _keep(self, count: int) -> None:
        del self._epochs[count:]
        del self._starts[count:]
        self.latest = self._epochs[-1] if self._epochs else -1

    def _write(self) -> None:
        lines = [f"{epoch} {start}" for epoch, start in self.entries]
        self._disk.write_atomically(self.path, encode_lines(lines), sync=False)
        self.unsynced = True
