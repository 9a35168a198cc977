"""Documents that say the same as the code. `make verify` asks some of it again."""

import re
from pathlib import Path

import pytest
from conformance import BEGIN, END, PAGE, rewritten
from pins import pins

REPOSITORY = Path(__file__).resolve().parents[3]
SOURCE = REPOSITORY / "broker-image" / "src" / "pykraft"
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


def test_the_table_of_versions_is_what_the_code_serves() -> None:
    page = PAGE.read_text()
    assert page == rewritten(page), "python tests/support/conformance.py --rewrite"


def test_a_changed_table_is_noticed_and_put_right() -> None:
    page = f"before\n{BEGIN}| 0 | Produce | 99 |\n{END}after\n"
    assert rewritten(page) != page
    assert rewritten(rewritten(page)) == rewritten(page)
    assert rewritten(page).startswith("before\n")
    assert rewritten(page).endswith("after\n")


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


def test_the_map_of_files_names_only_files_that_exist() -> None:
    page = (REPOSITORY / "ARCHITECTURE.md").read_text()
    named = re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py|(?:[a-z_]+/)+)`", page)
    homes = (SOURCE, SOURCE.parents[1], REPOSITORY)
    lost = [name for name in named if not any((home / name).exists() for home in homes)]
    assert lost == []


def test_the_map_of_files_names_every_part_of_the_node() -> None:
    page = (REPOSITORY / "ARCHITECTURE.md").read_text()
    parts = {path.parent for path in SOURCE.rglob("__init__.py")} - {SOURCE}
    named = [f"`{part.relative_to(SOURCE)}/`" for part in parts]
    assert [name for name in named if name not in page] == []


def test_constraints_pin_every_dependency_of_the_project() -> None:
    pinned = pins((REPOSITORY / "constraints.txt").read_text())
    project = (REPOSITORY / "broker-image" / "pyproject.toml").read_text()
    lists = re.findall(r"^(?:dependencies|dev) = \[(.*?)^\]", project, re.DOTALL | re.MULTILINE)
    named = [name.lower() for text in lists for name in re.findall(r'"([A-Za-z0-9-]+)"', text)]
    assert len(named) > 10
    assert [name for name in named if name not in pinned] == []
