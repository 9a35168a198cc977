"""The parts of our documents that are made from the code, so that they cannot say anything else.

python tests/support/documents.py --check     fail when a document is not what the code says
python tests/support/documents.py --rewrite   write those parts anew

CONFORMANCE.md has the table of API versions (from protocol/versions.py) and what is knowingly
absent (from the paragraph "Absent:" of each handler). ARCHITECTURE.md has the map of files (from
the first sentence of each module).
"""

import ast
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from pykraft.protocol.versions import API_VERSIONS, FLEXIBLE_FROM, NAMES, PRODUCE_VERSION_MIN

REPOSITORY = Path(__file__).resolve().parents[3]
SOURCE = REPOSITORY / "broker-image" / "src" / "pykraft"
CONFORMANCE = REPOSITORY / "broker-image" / "CONFORMANCE.md"
ARCHITECTURE = REPOSITORY / "ARCHITECTURE.md"
REWRITE = "cd broker-image && python tests/support/documents.py --rewrite"


def docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text())) or ""


def first_sentence(path: Path) -> str:
    """The first paragraph, which is a sentence in every module of ours, as one line."""
    return " ".join(docstring(path).split("\n\n")[0].split())


def version_range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def version_row(api_key: int) -> str:
    first, last = API_VERSIONS[api_key]
    served = version_range(first, last)
    if NAMES[api_key] == "Produce":
        served = f"{version_range(PRODUCE_VERSION_MIN, last)} (announced from {first})"
    return f"| {api_key} | {NAMES[api_key]} | {served} | {FLEXIBLE_FROM[api_key]}+ |\n"


def versions() -> str:
    head = "| key | API | versions served | flexible |\n|---|---|---|---|\n"
    return head + "".join(version_row(api_key) for api_key in sorted(API_VERSIONS))


def absences() -> str:
    """One paragraph for each handler that says what it does not do."""
    found = []
    for path in sorted((SOURCE / "handlers").glob("*.py")):
        text = docstring(path)
        absent = re.search(r"^(Absent: .*?)(?=\n\n|\Z)", text, re.DOTALL | re.MULTILINE)
        if absent:
            found.append(f"- **{first_sentence(path)}** {' '.join(absent[1].split())}\n")
    return "".join(found)


def file_map() -> str:
    return "".join(_file_map())


def _file_map() -> Iterator[str]:
    folders = sorted({path.parent for path in SOURCE.rglob("*.py")})
    for folder in folders:
        package = folder.relative_to(SOURCE)
        if folder != SOURCE:
            yield f"- `{package}/`: {first_sentence(folder / '__init__.py')}\n"
        indent = "" if folder == SOURCE else "  "
        for path in sorted(folder.glob("*.py")):
            if path.name != "__init__.py":
                yield f"{indent}- `{path.relative_to(SOURCE)}`: {first_sentence(path)}\n"


MADE: dict[Path, dict[str, Callable[[], str]]] = {
    CONFORMANCE: {"versions": versions, "absences": absences},
    ARCHITECTURE: {"map of files": file_map},
}


def marks(name: str) -> tuple[str, str]:
    made_by = "made by tests/support/documents.py, do not edit"
    return f"<!-- {name}: {made_by} -->\n", f"<!-- end of {name} -->\n"


def rewritten(page: str, parts: dict[str, Callable[[], str]]) -> str:
    for name, make in parts.items():
        begin, end = marks(name)
        before, rest = page.split(begin)
        _, after = rest.split(end)
        page = f"{before}{begin}{make()}{end}{after}"
    return page


def main(option: str) -> int:
    stale = []
    for path, parts in MADE.items():
        page = path.read_text()
        wanted = rewritten(page, parts)
        if option == "--rewrite":
            path.write_text(wanted)
        elif page != wanted:
            stale.append(path.name)
    if stale:
        print(f"out of date: {', '.join(stale)}; run: {REWRITE}")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "--check"))
