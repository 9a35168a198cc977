"""RESULTS.md: the table of one run, the machine it ran on, and below a marker what people wrote."""

import datetime
import os
import platform
import subprocess
from pathlib import Path

from brokers import SERVER_JVM
from rows import CONNECTIONS, TOPIC_BYTES_MAX
from table import Line, markdown, summary

PATH = Path(__file__).with_name("RESULTS.md")
# Everything after this line is kept when the file is written again.
MARKER = "<!-- Written by hand from here on. -->"
READING = """

## Reading

Not yet written: say here which rows fall short, why, and what was noisy.
"""


def save(lines: list[Line], rounds: int) -> None:
    kept = READING
    if PATH.exists() and MARKER in (text := PATH.read_text()):
        kept = text.split(MARKER, 1)[1]
    PATH.write_text(f"{_page(lines, rounds)}\n{MARKER}{kept}")


def _page(lines: list[Line], rounds: int) -> str:
    return f"""# pykraft and Apache Kafka side by side

Written by `make bench` with `--save`; {datetime.date.today().isoformat()}, medians of {rounds}
rounds in turn on one machine: {_machine()}.

Both are one combined node with default settings, except for replication factors of one and an
early deletion of files (`log.segment.delete.delay.ms`). pykraft's HTTP port is off. Kafka is 4.3.1
with the options of kafka-server-start: `{" ".join(SERVER_JVM)}`.
The load is {CONNECTIONS} connections with up to five requests in flight, encoded beforehand, not
compressed and not idempotent. A topic gets at most {TOPIC_BYTES_MAX / 1e9:g} GB, less than a
segment, so that nobody waits for the disk. p1 and p100 are partitions, 16KB and 256KB batches; with
100 partitions a request holds about 1 MB of batches. MB/s are of values, without the overhead of
batches. CPU is user and system time of the broker's process. The ratio is pykraft to Kafka. "client
busy" is the load generator's share of one core beside Kafka and beside pykraft: near 100, the
client was the limit; "others busy" is what everything else on the machine took. Before each round,
the load runs until it costs the broker no less CPU time than before, so that the JVM has compiled
what it will. Rows with librdkafka promise no throughput: there the client is the limit.

{markdown(lines)}

{summary(lines)}
"""


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)
    version = java.stderr.splitlines()[0].split('"')[1]
    kernel = platform.release().split("-")[0]
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GiB of memory, Linux {kernel},"
        f" Python {platform.python_version()}, Java {version}"
    )
