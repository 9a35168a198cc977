"""Refuses a pytest run from the repository's root.

Each project is its own root for pytest (`cd broker-image && pytest`). Run from here, pytest would
name test modules after the folders they lie in, and a folder called `operator` would then replace
Python's own module of that name.
"""

import pytest


def pytest_configure() -> None:
    raise pytest.UsageError(
        "run `make test`, or pytest inside one project (cd broker-image): from the root, pytest"
        " would name modules after the project folders and mix the projects up"
    )
