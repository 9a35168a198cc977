"""The node's log: one line per event on stderr, as text for people or as JSON for machines.

    2026-11-18T07:00:00.123Z INFO  server connection refused peer=10.0.0.7:51234

What belongs to an event beside its message is given as `extra` and becomes key=value pairs. A
line never holds a line break, whatever a client sent or an exception says.
"""

import json
import logging
import sys
import time
from collections.abc import Iterator
from typing import TextIO

_STANDARD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
_PREFIX = "pykraft."


def configure(*, style: str, level: str, stream: TextIO | None = None) -> None:
    """Send everything that is logged to `stream` (stderr), in `style` "text" or "json"."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        pairs = "".join(f" {key}={_quoted(value)}" for key, value in _fields(record))
        message = _one_line(record.getMessage())
        name = record.name.removeprefix(_PREFIX)
        return f"{_timestamp(record)} {record.levelname:<5} {name} {message}{pairs}"


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        event = {
            "time": _timestamp(record),
            "level": record.levelname,
            "logger": record.name.removeprefix(_PREFIX),
            "message": record.getMessage(),
        }
        return json.dumps(event | dict(_fields(record)), default=str, ensure_ascii=False)


def _timestamp(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"


def _fields(record: logging.LogRecord) -> Iterator[tuple[str, object]]:
    for key, value in vars(record).items():
        if key not in _STANDARD_ATTRIBUTES:
            yield key, value
    if record.exc_info and record.exc_info[0] is not None:
        yield "error", f"{record.exc_info[0].__name__}: {record.exc_info[1]}"
        yield "traceback", logging.Formatter().formatException(record.exc_info)


def _quoted(value: object) -> str:
    text = str(value)
    plain = text and text.isprintable() and not any(mark in text for mark in ' "=')
    return text if plain else json.dumps(text, ensure_ascii=False)


def _one_line(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
