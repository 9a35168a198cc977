"""Apache Kafka 4.3.1 as a bag of jars: where they are, and how one of its classes is run."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
LIBS = REPOSITORY / ".cache" / "kafka-4.3.1" / "libs"

# The first compiler alone: a tool lives for a second and never earns back the second one's work.
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
TOOL_SECONDS_MAX = 90


class ToolError(AssertionError):
    """A tool of Apache Kafka's ended with an error; the message holds all that it said."""


def java(main_class: str, *arguments: str, options: Sequence[str] = SHORT_LIVED) -> list[str]:
    """The command that runs a class of Kafka's jars."""
    assert any(LIBS.glob("kafka_2.13-*.jar")), f"no Kafka in {LIBS}: run `make kafka-jars`"
    logging = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return ["java", *options, logging, "-cp", f"{LIBS}/*", main_class, *arguments]


def run_tool(
    main_class: str,
    *arguments: str,
    stdin: str = "",
    seconds_max: float = TOOL_SECONDS_MAX,
    may_fail: bool = False,
) -> str:
    """Run a tool to its end; return what it printed, with its errors too if it may fail."""
    done = subprocess.run(
        java(main_class, *arguments),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=seconds_max,
        check=False,
    )
    if done.returncode != 0 and not may_fail:
        said = f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        raise ToolError(f"{main_class} {' '.join(arguments)}: exit {done.returncode}\n{said}")
    return done.stdout + done.stderr if may_fail else done.stdout
