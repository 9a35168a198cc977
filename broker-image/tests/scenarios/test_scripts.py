"""Runs the scripts of the folders beside it.

A script is blocks with an empty line between: comments, commands, a line `----`, and what the
commands print. A command's words are the methods of the folder's script class.
"""

from pathlib import Path
from typing import Protocol

import pytest
from controller_script import ControllerScript

HERE = Path(__file__).parent
RULE = "----"


class Script(Protocol):
    def run(self, line: str) -> list[str]: ...


LANGUAGES: dict[str, type[Script]] = {"controller": ControllerScript}
SCRIPTS = sorted(path for folder in LANGUAGES for path in (HERE / folder).glob("*.txt"))


def is_command(line: str) -> bool:
    return bool(line.strip()) and not line.startswith("#")


def play(script: Script, text: str) -> str:
    """The text with what really happens below each rule."""
    blocks = []
    for block in text.strip("\n").split("\n\n"):
        said = block.split(f"\n{RULE}")[0].splitlines()
        printed = [
            out for line in said if is_command(line) for out in script.run(line.split("  #")[0])
        ]
        has_commands = any(map(is_command, said))
        blocks.append("\n".join([*said, *([RULE, *printed] if has_commands else [])]))
    return "\n\n".join(blocks) + "\n"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_what_the_script_says_is_what_happens(path: Path, request: pytest.FixtureRequest) -> None:
    expected = path.read_text()
    actual = play(LANGUAGES[path.parent.name](), expected)
    if request.config.getoption("--rewrite", default=False):
        path.write_text(actual)
    else:
        assert actual == expected


def test_every_language_has_scripts() -> None:
    assert {path.parent.name for path in SCRIPTS} == set(LANGUAGES)
