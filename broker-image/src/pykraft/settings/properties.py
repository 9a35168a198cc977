"""Java's .properties files, which server.properties is one of."""

import re
from collections.abc import Iterator, Mapping

_SPACE = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
# The first separator that no backslash stands before; blanks separate too.
_KEY = re.compile(r"(?:\\.|[^\\=:\s])*", re.DOTALL)


def decode_properties(raw: bytes) -> str:
    """Java reads Latin-1; a file that is UTF-8 was surely meant to be."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def parse_properties(text: str) -> dict[str, str]:
    """The last of several lines with one key counts. A key without a value has the empty text."""
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        key = _KEY.match(line)
        assert key is not None
        rest = line[key.end() :].lstrip(_SPACE)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_SPACE)
        properties[_unescape(key[0])] = _unescape(rest)
    return properties


def format_properties(properties: Mapping[str, str]) -> str:
    """Lines that `parse_properties` and Java read back as the same."""
    return "".join(f"{_escape(k, '=: ')}={_escape(v, '')}\n" for k, v in properties.items())


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments, joined where they end in an odd number of backslashes."""
    pending: str | None = None
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(_SPACE)
        if pending is None and (not line or line[0] in "#!"):
            continue
        line = line if pending is None else pending + line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending = line[:-1]
            continue
        pending = None
        yield line
    if pending:
        yield pending


def _unescape(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        code = found[1]
        return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)

    return _ESCAPE.sub(one, text)


def _escape(text: str, separators: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    for separator in separators:
        escaped = escaped.replace(separator, "\\" + separator)
    # A blank at the start of a value would be skipped, and # or ! at the start is a comment.
    return "\\" + escaped if escaped[:1] in (*_SPACE, "#", "!") and escaped else escaped
