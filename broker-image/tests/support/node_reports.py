"""What every suite with real brokers wants of pytest; its conftest imports both names.

A failed test shows the end of every broker's log, and no broker outlives the run.
"""

from collections.abc import Iterator

import pytest
from processes import RUNNING, end_all


@pytest.fixture(scope="session", autouse=True)
def nothing_left_running() -> Iterator[None]:
    yield
    end_all()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.failed:
        for node in RUNNING:
            report.sections.append((f"log of {node.kind}", node.log_end()))
    return report
