"""The table of API versions in CONFORMANCE.md, made from the code that serves them.

python tests/support/conformance.py --check     fail when the table is not what the code says
python tests/support/conformance.py --rewrite   write it anew
"""

import sys
from pathlib import Path

from pykraft.protocol.versions import API_VERSIONS, FLEXIBLE_FROM, NAMES, PRODUCE_VERSION_MIN

PAGE = Path(__file__).resolve().parents[2] / "CONFORMANCE.md"
BEGIN = "<!-- versions: made by tests/support/conformance.py, do not edit -->\n"
END = "<!-- end of versions -->\n"


def versions(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def row(api_key: int) -> str:
    first, last = API_VERSIONS[api_key]
    served = versions(first, last)
    if NAMES[api_key] == "Produce":
        served = f"{versions(PRODUCE_VERSION_MIN, last)} (announced from {first})"
    flexible = FLEXIBLE_FROM[api_key]
    return f"| {api_key} | {NAMES[api_key]} | {served} | {flexible}+ |\n"


def table() -> str:
    head = "| key | API | versions served | flexible |\n|---|---|---|---|\n"
    return head + "".join(row(api_key) for api_key in sorted(API_VERSIONS))


def rewritten(page: str) -> str:
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}{table()}{END}{after}"


def main(option: str) -> int:
    page = PAGE.read_text()
    if option == "--rewrite":
        PAGE.write_text(rewritten(page))
        return 0
    if page == rewritten(page):
        print("CONFORMANCE.md lists the versions that the code serves")
        return 0
    print("CONFORMANCE.md is out of date: python tests/support/conformance.py --rewrite")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "--check"))
