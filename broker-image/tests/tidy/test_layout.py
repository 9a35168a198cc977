"""Where files may lie, and what they may be called."""

from collections import Counter
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
TESTS = PROJECT / "tests"
SOURCE = PROJECT / "src" / "pykraft"

# Names that say nothing about what is inside.
MEANINGLESS = {"utils", "util", "helpers", "helper", "common", "misc", "manager"}


def test_the_project_folder_and_its_tests_are_no_packages() -> None:
    # As packages, same-named test files of two projects would hide each other: the second is
    # silently not run.
    packages = [*PROJECT.glob("__init__.py"), *TESTS.rglob("__init__.py")]
    assert packages == []


def test_every_folder_of_the_source_is_a_package() -> None:
    folders = {path.parent for path in SOURCE.rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_every_test_file_has_a_base_name_of_its_own() -> None:
    names = Counter(path.name for path in TESTS.rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_every_file_in_the_test_folders_is_a_test_or_a_conftest_or_support() -> None:
    # pytest does not collect other names, so tests in such a file would never run.
    stray = [
        path
        for path in TESTS.rglob("*.py")
        if TESTS / "support" not in path.parents
        and not path.name.startswith("test_")
        and path.name != "conftest.py"
        and "def test_" in path.read_text()
    ]
    assert stray == []


def test_no_module_has_a_meaningless_name() -> None:
    paths = [*SOURCE.rglob("*.py"), *TESTS.rglob("*.py")]
    assert [path for path in paths if path.stem in MEANINGLESS] == []
