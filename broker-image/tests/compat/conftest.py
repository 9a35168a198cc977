"""Two brokers on one directory."""

from collections.abc import Iterator

import pytest
from node_reports import pytest_runtest_makereport  # noqa: F401
from processes import end_all


@pytest.fixture(autouse=True)
def nothing_left_running() -> Iterator[None]:
    """After each test, because these tests end their brokers in the middle of a story."""
    yield
    end_all()
