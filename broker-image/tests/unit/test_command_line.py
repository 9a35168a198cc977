"""The command line: help that teaches, errors in one line."""

import subprocess
import sys

import pytest

from pykraft import __version__
from pykraft.__main__ import main


@pytest.fixture(autouse=True)
def hypothesis_stays(monkeypatch):
    """Commands hide hypothesis from kio; the other tests still need it."""
    import hypothesis

    monkeypatch.setitem(sys.modules, "hypothesis", hypothesis)


def run(capsys, *arguments):
    """Exit code, stdout and stderr."""
    try:
        code = main(arguments)
    except SystemExit as end:
        code = end.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_version_is_printed(capsys):
    assert run(capsys, "--version") == (0, f"pykraft {__version__}\n", "")


@pytest.mark.parametrize("command", ["up", "format", "node"])
def test_help_teaches_by_example(capsys, command):
    code, out, _ = run(capsys, command, "--help")
    assert code == 0
    assert f"  pykraft {command} " in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "pykraft: the following arguments are required: COMMAND (see `pykraft --help`)"),
        (("up", "--port", "x"), "'x' is not a port from 0 to 65535 (see `pykraft up --help`)"),
        (("up", "--brokers", "3"), "pykraft up: KafkaCluster local: 3 brokers and 0 controllers"),
        (("format", "-c", "f", "-t", "i", "-s", "-N"), "not allowed with argument"),
        (("node",), "the following arguments are required: -c/--config"),
        (("node", "-c", "f", "--override", "x"), "'x' is not KEY=VALUE"),
    ],
)
def test_a_wrong_use_is_one_line_and_code_2(capsys, arguments, message):
    code, out, err = run(capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_a_bad_setting_is_one_line_and_code_1(capsys, tmp_path):
    path = tmp_path / "server.properties"
    path.write_text("process.roles=broker\n")
    assert run(capsys, "node", "--config", str(path)) == (
        1,
        "",
        "pykraft node: controller.listener.names: is required and has no default\n",
    )


def test_a_random_uuid_is_22_characters(capsys):
    code, out, _ = run(capsys, "random-uuid")
    assert (code, len(out.strip())) == (0, 22)


def test_python_without_asserts_is_refused():
    command = [sys.executable, "-O", "-m", "pykraft", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "run it without python -O" in done.stderr


def test_a_directory_that_cannot_be_formatted_is_one_line_and_code_1(capsys, tmp_path):
    path = tmp_path / "server.properties"
    path.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\n"
        f"controller.quorum.bootstrap.servers=localhost:9093\nlog.dirs={tmp_path / 'data'}\n"
    )
    code, out, err = run(capsys, "format", "-c", str(path), "-t", "id")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "give one of --standalone, --initial-controllers" in err
