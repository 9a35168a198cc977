"""One line per event, whatever is in it."""

import io
import json
import logging

import pytest

from pykraft.ops import logs


@pytest.fixture
def root_logger():
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield root
    root.handlers[:], level = before
    root.setLevel(level)


@pytest.fixture
def written(root_logger):
    def lines(style, log):
        stream = io.StringIO()
        logs.configure(style=style, level="info", stream=stream)
        log(logging.getLogger("pykraft.node"))
        return stream.getvalue().splitlines()

    return lines


def without_time(line):
    timestamp, _, rest = line.partition(" ")
    assert len(timestamp) == len("2026-11-18T07:00:00.123Z")
    return rest


def test_text_has_time_level_name_message_and_pairs(written):
    (line,) = written("text", lambda log: log.info("closed", extra={"peer": "::1", "why": "a b"}))
    assert without_time(line) == 'INFO  node closed peer=::1 why="a b"'


def test_json_has_the_same_as_fields(written):
    (line,) = written("json", lambda log: log.warning("closed %s", "é", extra={"code": 7}))
    event = json.loads(line)
    assert event.pop("time").endswith("Z")
    expected = {"level": "WARNING", "logger": "node", "message": "closed é", "code": 7}
    assert event == expected


@pytest.mark.parametrize("style", ["text", "json"])
def test_a_line_break_from_a_client_makes_no_second_line(written, style):
    forged = "x\n2026 INFO all is well\x1b[2J"
    lines = written(style, lambda log: log.error(forged, extra={"client": forged}))
    assert len(lines) == 1
    assert "\x1b" not in lines[0]


@pytest.mark.parametrize("style", ["text", "json"])
def test_an_exception_stays_on_the_line_of_its_event(written, style):
    def fail(log):
        try:
            raise ValueError("bad")
        except ValueError:
            log.exception("cannot")

    (line,) = written(style, fail)
    assert "ValueError: bad" in line
    assert "Traceback" in line


def test_what_is_below_the_level_is_not_written(written):
    assert written("text", lambda log: log.debug("detail")) == []


def test_configuring_again_replaces_the_first(root_logger):
    first, second = io.StringIO(), io.StringIO()
    logs.configure(style="text", level="info", stream=first)
    logs.configure(style="text", level="error", stream=second)
    logging.getLogger("pykraft.x").error("once")
    assert (first.getvalue(), second.getvalue().count("once")) == ("", 1)
