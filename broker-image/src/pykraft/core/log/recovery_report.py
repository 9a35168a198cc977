"""What a recovery found and did, for the node's log: nothing is cut or dropped in silence."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class RecoveryReport:
    # Where the log was cut: the file, the position, and how many bytes lay behind it.
    cut: tuple[str, int, int] | None = None
    # Offsets that no batch has, from and to, where a segment may have lost its end.
    gaps: list[tuple[int, int]] = field(default_factory=list)
    dropped_segments: int = 0
    rebuilt_indexes: int = 0
    # The log starts behind what was its end.
    started_over_at: int | None = None
    # The last stop was clean: then even a damaged index is news.
    was_clean: bool = False

    @property
    def is_lossy(self) -> bool:
        """Is something gone that files beside the log may still speak of?"""
        return bool(self.cut or self.gaps or self.dropped_segments)

    def last_sure_offset(self, end_offset: int) -> int:
        """What was written about a later offset may be about batches that are lost."""
        return min([end_offset, *(first for first, _ in self.gaps)])

    def describe(self) -> str | None:
        """One line; None when nothing was lost. After a crash all scanned indexes are rebuilt."""
        if not (self.is_lossy or self.started_over_at is not None or self.was_clean):
            return None
        parts = []
        if self.cut is not None:
            path, position, size = self.cut
            parts.append(f"cut {size} bytes from {path} at position {position}")
        parts += [f"no batch has the offsets {first} to {last}" for first, last in self.gaps]
        if self.started_over_at is not None:
            parts.append(f"began anew at the log start {self.started_over_at}, past the end")
        if self.dropped_segments:
            parts.append(f"dropped {self.dropped_segments} segments")
        if self.rebuilt_indexes:
            parts.append(f"rebuilt the indexes of {self.rebuilt_indexes} segments")
        return "; ".join(parts) or None
