"""What the code may not do, with the reason next to each rule."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
SOURCE = PROJECT / "src" / "pykraft"
TESTS = PROJECT / "tests"


def modules(folder: Path) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(folder.rglob("*.py")):
        yield path, ast.parse(path.read_text())


def uses(folder: Path, names: set[str]) -> list[str]:
    """Where one of these dotted names occurs."""
    return [
        f"{path}:{node.lineno} {ast.unparse(node)}"
        for path, tree in modules(folder)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node) in names
    ]


def handlers(folder: Path) -> Iterator[tuple[str, ast.ExceptHandler]]:
    for path, tree in modules(folder):
        for node in ast.walk(tree):
            if isinstance(node, ast.ExceptHandler):
                yield f"{path}:{node.lineno}", node


def test_the_node_never_sleeps() -> None:
    # One thread serves every client: whoever sleeps there stops them all.
    assert uses(SOURCE, {"time.sleep"}) == []


def test_tests_wait_for_facts_and_never_for_a_while() -> None:
    assert uses(TESTS, {"time.sleep"}) == []


def test_the_core_reads_no_clock_and_draws_no_chance() -> None:
    # The same core runs in the simulator, which must be able to repeat itself.
    clocks = {"datetime.now", "datetime.utcnow", "datetime.datetime.now", "date.today"}
    chance = {"uuid.uuid4", "secrets.token_bytes", "os.urandom", "random.random"}
    assert uses(SOURCE / "core", clocks | chance) == []


def test_no_error_is_swallowed_whole() -> None:
    # The peer is wrong, the world is wrong or we are wrong; "anything at all, never mind" is none
    # of these.
    swallowed = [
        where
        for where, handler in handlers(SOURCE)
        if (handler.type is None or ast.unparse(handler.type) in ("Exception", "BaseException"))
        and all(isinstance(statement, ast.Pass) for statement in handler.body)
    ]
    assert swallowed == []


def test_no_handler_catches_everything_without_saying_so() -> None:
    assert [where for where, handler in handlers(PROJECT) if handler.type is None] == []


def test_no_test_is_skipped() -> None:
    skips = {"pytest.skip", "pytest.xfail", "pytest.mark.skip", "pytest.mark.skipif"}
    assert uses(TESTS, skips | {"pytest.mark.xfail", "pytest.importorskip"}) == []


def test_nothing_is_put_off_in_a_comment() -> None:
    marks = re.compile(r"#.*\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")
    put_off = [
        f"{path}:{number}"
        for path in [*SOURCE.rglob("*.py"), *TESTS.rglob("*.py")]
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if marks.search(line)
    ]
    assert put_off == []
