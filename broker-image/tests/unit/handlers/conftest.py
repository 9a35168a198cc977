from pathlib import Path

import pytest
from asked_broker import AskedBroker


@pytest.fixture
def node(tmp_path: Path) -> AskedBroker:
    return AskedBroker(tmp_path)
