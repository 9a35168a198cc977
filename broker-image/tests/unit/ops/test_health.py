import pytest
from played_node import HEALTHY, PlayedNode

from pykraft.ops.health import METADATA_LAG_MAX, reasons_not_ready
from pykraft.ops.view import LogDirStats


def test_a_healthy_node_has_no_reason_to_be_not_ready() -> None:
    assert reasons_not_ready(PlayedNode()) == []


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"fenced": True}, "fenced"),
        ({"shutting_down": True}, "shutting down"),
        ({"metadata_end_offset": 42 + METADATA_LAG_MAX}, "metadata not caught up: at offset 41"),
    ],
)
def test_each_trouble_is_named(changed: dict[str, int], reason: str) -> None:
    node = PlayedNode(status=HEALTHY._replace(**changed))
    (said,) = reasons_not_ready(node)
    assert said.startswith(reason)


def test_records_that_are_just_on_their_way_do_not_make_a_node_unready() -> None:
    node = PlayedNode(status=HEALTHY._replace(metadata_end_offset=41 + METADATA_LAG_MAX))
    assert reasons_not_ready(node) == []


def test_every_trouble_gets_its_own_line_and_every_disk_its_name() -> None:
    node = PlayedNode(
        log_dirs=[LogDirStats("/a", False), LogDirStats("/b", True), LogDirStats("/c", False)],
        status=HEALTHY._replace(fenced=True),
    )
    assert reasons_not_ready(node)[1:] == [
        "log directory offline: /a",
        "log directory offline: /c",
    ]
