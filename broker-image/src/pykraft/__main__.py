"""The command line: `pykraft format`, `node`, `up` and `random-uuid`.

Each command imports what it needs when it runs, so that `--help` is instant and a node does not
carry what only `up` uses.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, TypeAlias

from pykraft import __version__

USAGE_ERROR = 2


class CommandError(Exception):
    """What the user can set right: one line, and the exit code."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def main(arguments: Sequence[str] | None = None) -> int:
    if not __debug__:
        print("pykraft: its asserts guard your data; run it without python -O", file=sys.stderr)
        return USAGE_ERROR
    parsed = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = parsed.command
    try:
        return command(parsed)
    except CommandError as error:
        print(f"pykraft {parsed.name}: {error}", file=sys.stderr)
        return error.exit_code


class _Parser(argparse.ArgumentParser):
    """One that complains in one line and says where help is."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE_ERROR, f"{self.prog}: {message} (see `{self.prog} --help`)\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="pykraft",
        description="A Kafka-compatible streaming platform.",
        epilog="start one on this machine:  pykraft up",
    )
    parser.add_argument("--version", action="version", version=f"pykraft {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_up(commands)
    _add_format(commands)
    _add_node(commands)
    _add_random_uuid(commands)
    return parser


_Commands: TypeAlias = "argparse._SubParsersAction[_Parser]"


def _add(
    commands: _Commands, name: str, run: Callable[[argparse.Namespace], int], text: str, more: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=more,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=run, name=name)
    return parser


def _add_up(commands: _Commands) -> None:
    more = """examples:
  pykraft up                                              one node, no topics
  pykraft up -f manifests/examples/quickstart.yaml        a cluster with its topics
  pykraft up --port 19092 --data-dir /var/tmp/kafka       elsewhere

It prints `ready: HOST:PORT` when clients can connect, and stops on Ctrl-C. A second start with
the same data directory goes on where the first stopped."""
    parser = _add(commands, "up", _up, "run a cluster on this machine", more)
    parser.add_argument("-f", "--file", type=Path, help="YAML with one KafkaCluster and its Topics")
    parser.add_argument(
        "--port", type=_port, default=9092, help="port for clients; 0 takes a free one (9092)"
    )
    parser.add_argument(
        "--data-dir", type=Path, help="where the data live (./data/<name of the cluster>)"
    )
    parser.add_argument("--brokers", type=_count, help="instead of spec.brokers.replicas")
    parser.add_argument("--controllers", type=_count, help="instead of spec.controllers.replicas")


def _add_format(commands: _Commands) -> None:
    more = """examples:
  pykraft format -c server.properties -t "$(pykraft random-uuid)" --standalone
  pykraft format -c server.properties -t ID -I 1@host1:9093:DIRID1,2@host2:9093:DIRID2
  pykraft format -c server.properties -t ID --no-initial-controllers   # the voters are elsewhere

The options are those of Kafka's kafka-storage format."""
    text = "prepare the log directories of a node"
    parser = _add(commands, "format", _format, text, more)
    _add_config(parser)
    parser.add_argument("-t", "--cluster-id", required=True, help="the same for all nodes")
    quorum = parser.add_mutually_exclusive_group()
    quorum.add_argument(
        "-s", "--standalone", action="store_true", help="this controller is the first voter"
    )
    quorum.add_argument(
        "-I", "--initial-controllers", metavar="VOTERS", help="ID@HOST:PORT:DIRECTORY_ID,..."
    )
    quorum.add_argument(
        "-N",
        "--no-initial-controllers",
        action="store_true",
        help="neither: the voters are elsewhere",
    )
    parser.add_argument(
        "-g", "--ignore-formatted", action="store_true", help="pass over what is formatted"
    )
    parser.add_argument("-r", "--release-version", metavar="VERSION", help="such as 4.3")
    parser.add_argument(
        "-f",
        "--feature",
        action="append",
        default=[],
        metavar="NAME=LEVEL",
        help="a feature level other than the release's; can be repeated",
    )


def _add_node(commands: _Commands) -> None:
    more = """example:
  pykraft node -c server.properties

The file has Kafka's keys. The node prints `ready: HOST:PORT` when clients can connect, logs to
stderr, and stops cleanly on SIGTERM or Ctrl-C."""
    parser = _add(commands, "node", _node, "run one node, as broker, controller or both", more)
    _add_config(parser)
    parser.add_argument(
        "--override",
        action="append",
        default=[],
        type=_override,
        metavar="KEY=VALUE",
        help="counts for more than the file; can be repeated",
    )


def _add_random_uuid(commands: _Commands) -> None:
    _add(commands, "random-uuid", _random_uuid, "print a new id, for a cluster", "")


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-c", "--config", type=Path, required=True, metavar="FILE", help="server.properties"
    )


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to 65535")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def _override(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def _without_hypothesis() -> None:
    """Keep kio from importing hypothesis, to be called before anything imports kio.

    kio registers strategies with it wherever it is installed. A node has no use for them, and
    they would cost it memory and a good part of its start.
    """
    sys.modules["hypothesis"] = None  # type: ignore[assignment]


def _up(arguments: argparse.Namespace) -> int:
    _without_hypothesis()
    from pykraft.local.spec import SpecError
    from pykraft.local.up import up

    try:
        return up(
            arguments.file,
            port=arguments.port,
            data_dir=arguments.data_dir,
            brokers=arguments.brokers,
            controllers=arguments.controllers,
        )
    except SpecError as error:
        raise CommandError(str(error), USAGE_ERROR) from None
    except OSError as error:
        raise CommandError(str(error)) from None


def _format(arguments: argparse.Namespace) -> int:
    _without_hypothesis()
    from pykraft.runtime.format import FormatError, format_directories
    from pykraft.settings import Settings, SettingsError

    try:
        settings = Settings.load(arguments.config)
        messages = format_directories(
            settings,
            arguments.cluster_id,
            standalone=arguments.standalone,
            initial_controllers=arguments.initial_controllers,
            no_initial_controllers=arguments.no_initial_controllers,
            ignore_formatted=arguments.ignore_formatted,
            release_version=arguments.release_version,
            features=arguments.feature,
        )
    except (SettingsError, FormatError, OSError) as error:
        raise CommandError(str(error)) from None
    print(*messages, sep="\n")
    return 0


def _node(arguments: argparse.Namespace) -> int:
    _without_hypothesis()
    from pykraft.ops import logs
    from pykraft.settings import Settings, SettingsError

    try:
        settings = Settings.load(arguments.config, dict(arguments.override))
    except SettingsError as error:
        raise CommandError(str(error)) from None
    logs.configure(style=settings.pykraft_log_format, level=settings.pykraft_log_level)
    from pykraft.node import run

    return run(settings)


def _random_uuid(_: argparse.Namespace) -> int:
    from pykraft.ids import uuid_to_text
    from pykraft.runtime.identity import new_uuid

    print(uuid_to_text(new_uuid()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
