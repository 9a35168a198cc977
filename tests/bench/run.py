"""pykraft and Apache Kafka side by side: the same machine, the same run, the same bytes.

Rounds alternate between the two, so that whatever else the machine does meets both. Figures of one
run compare; figures of different machines do not.
"""

import argparse
import fnmatch
import pstats
import shutil
import sys
import tempfile
import time
from pathlib import Path

import rows as all_of
from brokers import KAFKA, PYKRAFT, Broker, ProfiledNode
from results_file import save
from rows import Durations, Figures, Row
from table import Results, markdown, summary

ROUNDS = 3
PROFILE_LINES = 25


def main() -> int:
    options = _options()
    if options.profile:
        profile(options.profile)
        return 0
    patterns = options.rows or (list(all_of.QUICK_ROWS) if options.quick else ["*"])
    durations = all_of.QUICK if options.quick else Durations()
    rounds = options.rounds or (1 if options.quick else ROUNDS)
    results = Results()
    for number in range(1, rounds + 1):
        for kind in (KAFKA, PYKRAFT):
            run_round(kind, f"round {number}/{rounds}", patterns, durations, results)
    lines = results.lines()
    print(f"\n{markdown(lines)}\n\n{summary(lines)}")
    if options.quick:
        print("A quick run shows that it works; the JVM is still cold, so its figures say little.")
    if options.save:
        save(lines, rounds)
    return 0


def run_round(
    kind: str, title: str, patterns: list[str], durations: Durations, results: Results
) -> None:
    """One broker from an empty directory through all chosen rows."""

    def chosen(row: Row) -> bool:
        return any(fnmatch.fnmatch(row.name, pattern) for pattern in patterns)

    folder = Path(tempfile.mkdtemp(prefix="pykraft-bench-"))
    broker = Broker(kind, folder)

    def measure(row: Row, kept: bool = True) -> None:
        say(f"{title} {kind:7} {row.name:34}", end="")
        figures = row.measure(broker, durations)
        say(described(figures))
        if kept:
            results.add(row.kind, row.name, kind, figures)

    try:
        start, restart = all_of.start_row(), all_of.restart_row()
        measure(start, chosen(start))
        say(f"{title} {kind:7} {'warm-up':34}", end="")
        say(f"{all_of.warm_up(broker, durations)} times")
        for row in filter(chosen, all_of.all_rows()):
            measure(row)
        if chosen(restart):
            measure(restart)
    finally:
        broker.end()
        shutil.rmtree(folder)


def profile(pattern: str) -> None:
    """Where pykraft spends its time under the load of these rows."""
    rows = [row for row in all_of.all_rows() if fnmatch.fnmatch(row.name, pattern)]
    if not rows:
        raise SystemExit(f"no row is called {pattern!r}")
    for row in rows:
        folder = Path(tempfile.mkdtemp(prefix="pykraft-bench-"))
        broker = Broker(PYKRAFT, folder, profiled=True)
        try:
            all_of.first_acknowledgement(broker, Durations())
            say(f"{row.name}: {described(row.measure(broker, Durations()))}")
            broker.stop()
            assert isinstance(broker.node, ProfiledNode)
            stats = pstats.Stats(str(broker.node.profile))
            stats.strip_dirs().sort_stats("tottime").print_stats(PROFILE_LINES)
        finally:
            broker.end()
            shutil.rmtree(folder)


def described(figures: Figures) -> str:
    return ", ".join(f"{value:.4g} {figure}" for figure, value in figures.items())


def say(text: str, end: str = "\n") -> None:
    print(text, end=end, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="about a minute; few rows, one round")
    parser.add_argument("--rounds", type=int, help=f"rounds of both brokers ({ROUNDS})")
    parser.add_argument(
        "--rows",
        action="append",
        metavar="PATTERN",
        help="only rows with such a name, e.g. 'fetch*'",
    )
    parser.add_argument("--save", action="store_true", help="write RESULTS.md")
    parser.add_argument("--profile", metavar="ROW", help="pykraft alone under cProfile, this row")
    return parser.parse_args()


if __name__ == "__main__":
    begin = time.monotonic()
    code = main()
    print(f"{time.monotonic() - begin:.0f} s in all")
    sys.exit(code)
