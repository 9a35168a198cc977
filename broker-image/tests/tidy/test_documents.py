"""Documents that say the same as the code. `make verify` asks some of it again."""

import re
from pathlib import Path

import pytest
from documents import MADE, REPOSITORY, REWRITE, SOURCE, docstring, marks, rewritten
from pins import pins

MAKEFILE = (REPOSITORY / "Makefile").read_text()
DOCUMENTS = [
    *REPOSITORY.glob("*.md"),
    *REPOSITORY.glob("broker-image/*.md"),
    *REPOSITORY.glob("broker-image/docs/**/*.md"),
]


def targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))


def ids(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(REPOSITORY)) for path in paths]


@pytest.mark.parametrize("document", MADE, ids=ids([*MADE]))
def test_what_is_made_from_the_code_still_says_what_the_code_says(document: Path) -> None:
    page = document.read_text()
    assert page == rewritten(page, MADE[document]), REWRITE


def test_a_changed_part_is_noticed_and_put_right() -> None:
    begin, end = marks("part")
    page = f"before\n{begin}old\n{end}after\n"
    wanted = rewritten(page, {"part": lambda: "new\n"})
    assert wanted == f"before\n{begin}new\n{end}after\n"
    assert rewritten(wanted, {"part": lambda: "new\n"}) == wanted


def test_every_module_begins_by_saying_what_it_is_for() -> None:
    silent = [path for path in SOURCE.rglob("*.py") if not docstring(path)]
    assert silent == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids(DOCUMENTS))
def test_every_make_target_that_a_document_names_exists(document: Path) -> None:
    code = re.findall(r"```.*?```|`[^`\n]+`", document.read_text(), re.DOTALL)
    named = {name for text in code for name in re.findall(r"\bmake ([a-z][a-z-]*)", text)}
    assert named - targets() == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids(DOCUMENTS))
def test_every_file_that_a_document_links_to_exists(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text())
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_every_target_is_explained_and_declared_phony() -> None:
    explained = set(re.findall(r"^([a-z][a-z-]*):.*## \S", MAKEFILE, re.MULTILINE))
    assert targets() - explained == set()
    phony = MAKEFILE.split(".PHONY:")[1].splitlines()[0]
    groups = re.findall(r"^(?:CHECKS|TESTS) := (.*)", MAKEFILE, re.MULTILINE)
    assert targets() - set(" ".join([phony, *groups]).split()) == set()


def test_every_path_that_the_architecture_names_exists() -> None:
    page = (REPOSITORY / "ARCHITECTURE.md").read_text()
    named = re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py|(?:[a-z_-]+/)+)", page)
    homes = (SOURCE, SOURCE.parents[1], REPOSITORY)
    assert [name for name in named if not any((home / name).exists() for home in homes)] == []


def test_constraints_pin_every_dependency_of_the_project() -> None:
    pinned = pins((REPOSITORY / "constraints.txt").read_text())
    project = (REPOSITORY / "broker-image" / "pyproject.toml").read_text()
    lists = re.findall(r"^(?:dependencies|dev) = \[(.*?)^\]", project, re.DOTALL | re.MULTILINE)
    named = [name.lower() for text in lists for name in re.findall(r'"([A-Za-z0-9-]+)"', text)]
    assert len(named) > 10
    assert [name for name in named if name not in pinned] == []
