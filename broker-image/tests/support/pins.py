"""Fails when something is installed that constraints.txt does not pin, or in another version."""

import re
import sys
from importlib.metadata import distributions
from pathlib import Path

CONSTRAINTS = Path(__file__).resolve().parents[3] / "constraints.txt"
# Ours, and what a fresh virtual environment brings along.
NOT_PINNED = {"pykraft", "pip", "setuptools"}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {canonical(name): version for name, version in (line.split("==") for line in lines)}


def main() -> int:
    pinned = pins(CONSTRAINTS.read_text())
    installed = {canonical(each.metadata["Name"]): each.version for each in distributions()}
    wrong = [
        f"{name} {version} is installed, constraints.txt says {pinned.get(name, 'nothing')}"
        for name, version in sorted(installed.items())
        if name not in NOT_PINNED and pinned.get(name) != version
    ]
    print("\n".join(wrong) or "constraints.txt pins all that is installed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
