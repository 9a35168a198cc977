"""Modules and functions that a reader can hold in mind."""

import ast
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
MODULE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
MODULES = [*(PROJECT / "src").rglob("*.py"), *(PROJECT / "tests").rglob("*.py")]

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> list[Function]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, Function)]


def test_no_module_is_longer_than_600_lines() -> None:
    lengths = {str(path): len(path.read_text().splitlines()) for path in MODULES}
    assert {path: n for path, n in lengths.items() if n > MODULE_LINES_MAX} == {}


def test_no_function_is_longer_than_70_lines() -> None:
    long = [
        f"{path}:{function.lineno} {function.name}"
        for path in MODULES
        for function in functions(path)
        if (function.end_lineno or 0) - function.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert long == []
