"""The corpus of requests in tests/wire/corpus, and ways to damage them.

One line is one request without its size, in hex; what follows a `#` says what it is. The files
named after an API hold a valid request of each version; `found.hex` holds those that once broke
something.

    python tests/support/corpus.py     writes the valid ones anew
"""

import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from frames import SERVED, request
from kio.schema.index import api_key_map

FOLDER = Path(__file__).resolve().parents[1] / "wire" / "corpus"
FOUND = "found.hex"
MUTATIONS_MAX = 4

NUMBERS = [
    *(struct.pack(">q", number) for number in (-1, -(2**63), 2**63 - 1)),
    *(struct.pack(">i", number) for number in (-1, -2, -(2**31), 2**31 - 1, 10**6, 0)),
    *(struct.pack(">h", number) for number in (-1, -(2**15), 2**15 - 1, 0)),
    b"\xff\xff\xff\xff\x0f",  # The largest compact size,
    b"\xff\xff\xff\xff\x7f",  # one with bits that an int32 has no room for,
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",  # one that is too long,
    b"\x80\x80\x00",  # and a zero in three bytes.
    b"\xff",
    b"\x80",
    b"\x00",
    b"\x01",
]


def load() -> list[bytes]:
    """All requests of the corpus, in a stable order."""
    return [data for path in sorted(FOLDER.glob("*.hex")) for data in read(path)]


def read(path: Path) -> Iterator[bytes]:
    for line in path.read_text().splitlines():
        code = line.partition("#")[0].strip()
        if code:
            yield bytes.fromhex(code)


def damaged(data: bytes, chance: random.Random) -> bytes:
    """The same request after a few mutations."""
    for _ in range(chance.randint(1, MUTATIONS_MAX)):
        data = chance.choice(MUTATIONS)(data, chance)
    return data


def _flip(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return (
        data[:at]
        + bytes([1 << chance.randrange(8) ^ each for each in data[at : at + 1]])
        + (data[at + 1 :])
    )


def _cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def _drop(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + data[at + chance.randint(1, 8) :]


def _insert(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.randbytes(chance.randint(1, 8)) + data[at:]


def _overwrite(data: bytes, chance: random.Random) -> bytes:
    at, number = chance.randrange(len(data) + 1), chance.choice(NUMBERS)
    return data[:at] + number + data[at + len(number) :]


def _repeat(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + data[at : at + 16] * chance.randint(1, 64) + data[at:]


MUTATIONS: list[Callable[[bytes, random.Random], bytes]] = [
    _flip,
    _cut,
    _drop,
    _insert,
    _overwrite,
    _repeat,
]


def write() -> None:
    FOLDER.mkdir(exist_ok=True)
    for api_key, versions in SERVED.items():
        lines = [f"{request(api_key, version).data.hex()}  # v{version}\n" for version in versions]
        (FOLDER / f"{api_key_map[api_key]}.hex").write_text("".join(lines))


if __name__ == "__main__":
    write()
