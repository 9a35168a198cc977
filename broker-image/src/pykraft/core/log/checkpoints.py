"""The small text files of a log directory: one offset per partition, or one per leader epoch.

0                    version
2                    number of lines that follow
orders 0 1523
orders 1 88
"""

from collections.abc import Mapping

from pykraft.core.storage import AbsentError, Disk

VERSION = "0"
TopicPartition = tuple[str, int]


def read_checkpoint(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """Empty when the file is absent or damaged: then everything is recovered from the start."""
    found: dict[TopicPartition, int] = {}
    for line in read_lines(disk, path) or ():
        try:
            topic, index, offset = line.split(" ")
            found[topic, int(index)] = int(offset)
        except ValueError:
            return {}
    return found


def write_checkpoint(
    disk: Disk, path: str, offsets: Mapping[TopicPartition, int], *, sync: bool = True
) -> None:
    lines = [f"{topic} {index} {offset}" for (topic, index), offset in sorted(offsets.items())]
    disk.write_atomically(path, encode_lines(lines), sync=sync)


def encode_lines(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in (VERSION, str(len(lines)), *lines)).encode()


def read_lines(disk: Disk, path: str) -> list[str] | None:
    """The lines after the count; None when the file is absent, cut or of another version."""
    try:
        text = disk.read(path).decode()
    except (AbsentError, UnicodeDecodeError):
        return None
    version, _, rest = text.partition("\n")
    count, _, body = rest.partition("\n")
    lines = body.splitlines()
    # A number that is cut is still a number: only the last line's end shows that all is there.
    if version != VERSION or not text.endswith("\n") or count != str(len(lines)):
        return None
    return lines
