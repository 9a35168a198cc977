"""Waiting for a fact, never for a while."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# How often a fact is looked at again. It bounds how late we notice, not how long we wait.
LOOK_AGAIN_S = 0.01


class DeadlineError(AssertionError):
    """The deadline passed before the fact was seen."""


def eventually(fact: Callable[[], T], *, within_s: float, because: str) -> T:
    """Look until `fact` returns something true, and return it. Fails with what it last saw."""
    pause = threading.Event()
    deadline = time.monotonic() + within_s
    while True:
        seen = fact()
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise DeadlineError(f"not within {within_s} s: {because}; last seen: {seen!r}")
        pause.wait(LOOK_AGAIN_S)
