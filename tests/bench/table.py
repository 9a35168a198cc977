"""Medians of both brokers, their ratio, and whether it is what we promise."""

import statistics
from collections.abc import Iterator
from typing import NamedTuple

from brokers import KAFKA, PYKRAFT
from rows import CLIENT, CPU_GB, IDLE, MB_S, OTHERS, P50, P99, RECORDS_S, RSS, START, Figures


class Target(NamedTuple):
    """A bound of pykraft's figure divided by Kafka's."""

    at_least: bool
    ratio: float

    def is_met(self, ratio: float) -> bool:
        return ratio >= self.ratio if self.at_least else ratio <= self.ratio

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.ratio:g}"


# A real client is itself the bottleneck, so that its rows promise CPU time only.
TARGETS: dict[tuple[str, str], Target] = {
    ("produce", MB_S): Target(True, 1.1),
    ("produce", CPU_GB): Target(False, 0.55),
    ("produce-real", CPU_GB): Target(False, 0.55),
    ("fetch", MB_S): Target(True, 1.0),
    ("fetch", CPU_GB): Target(False, 0.85),
    ("fetch-real", CPU_GB): Target(False, 0.85),
    ("latency", P99): Target(False, 1.0),
    ("rss", RSS): Target(False, 0.12),
    ("idle", IDLE): Target(False, 0.3),
    ("start", START): Target(False, 0.3),
}
SHOWN = (MB_S, CPU_GB, P50, P99, RSS, IDLE, START)
COLUMNS = (
    "row",
    "figure",
    "Kafka",
    "pykraft",
    "ratio",
    "target",
    "",
    "krecords/s Kafka, pykraft",
    "client busy %",
    "others busy %",
)
# Above this share of one core, what else ran on the machine makes the figures doubtful.
OTHERS_PERCENT_MAX = 10


class Line(NamedTuple):
    """One figure of one row, compared."""

    row: str
    figure: str
    kafka: float
    pykraft: float
    target: Target | None
    records: str
    client: str
    others: float | None

    @property
    def ratio(self) -> float:
        return self.pykraft / self.kafka if self.kafka else float("inf")

    @property
    def is_met(self) -> bool:
        return self.target is None or self.target.is_met(self.ratio)

    def cells(self) -> tuple[str, ...]:
        verdict = "" if self.target is None else "ok" if self.is_met else "MISSED"
        return (
            self.row,
            self.figure,
            _number(self.kafka),
            _number(self.pykraft),
            f"{self.ratio:.2f}",
            "" if self.target is None else str(self.target),
            verdict,
            self.records,
            self.client,
            "" if self.others is None else f"{self.others:.0f}",
        )


class Results:
    """Every figure of every round. Rows are kept in the order in which they first came."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], dict[str, list[Figures]]] = {}

    def add(self, kind: str, row: str, broker: str, figures: Figures) -> None:
        found = self._rows.setdefault((kind, row), {KAFKA: [], PYKRAFT: []})
        found[broker].append(figures)

    def lines(self) -> list[Line]:
        return [
            line for (kind, row), found in self._rows.items() for line in _lines(kind, row, found)
        ]


def _lines(kind: str, row: str, found: dict[str, list[Figures]]) -> Iterator[Line]:
    if not (found[KAFKA] and found[PYKRAFT]):
        return
    kafka, pykraft = _medians(found[KAFKA]), _medians(found[PYKRAFT])
    for figure in SHOWN:
        if figure not in kafka:
            continue
        records, client, others = "", "", None
        if figure == MB_S:
            records = f"{_number(kafka[RECORDS_S])}, {_number(pykraft[RECORDS_S])}"
            client = f"{kafka[CLIENT]:.0f}, {pykraft[CLIENT]:.0f}"
            others = max(kafka[OTHERS], pykraft[OTHERS])
        target = TARGETS.get((kind, figure))
        yield Line(row, figure, kafka[figure], pykraft[figure], target, records, client, others)


def _medians(rounds: list[Figures]) -> Figures:
    return {figure: statistics.median(each[figure] for each in rounds) for figure in rounds[0]}


def markdown(lines: list[Line]) -> str:
    """The table, readable both as text and as Markdown."""
    cells = [COLUMNS, *(line.cells() for line in lines)]
    widths = [max(3, *(len(row[n]) for row in cells)) for n in range(len(COLUMNS))]
    ruler = tuple("-" * width for width in widths)
    padded = (
        " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in (COLUMNS, ruler, *cells[1:])
    )
    return "\n".join(f"| {row} |" for row in padded)


def summary(lines: list[Line]) -> str:
    promised = [line for line in lines if line.target is not None]
    met = sum(line.is_met for line in promised)
    said = f"{met} of {len(promised)} targets met."
    others = max((line.others for line in lines if line.others is not None), default=0)
    if others > OTHERS_PERCENT_MAX:
        said += f" Other processes took up to {others:.0f} % of a core: run it again alone."
    return said


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.3f}"
