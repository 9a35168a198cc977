"""The levels of this node's loggers, which DescribeConfigs shows and IncrementalAlterConfigs sets.

They are a resource of the broker alone: no record is written, and a restart forgets them, as in
Kafka. Python's names for two levels differ from Kafka's.
"""

import logging
from collections.abc import Iterable

from pykraft.configs import Operation

ROOT = "root"
# Kafka's levels; Python has none below DEBUG.
LEVELS = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def logger_levels() -> dict[str, str]:
    """What counts for each logger, its own level or the one that it inherits."""
    names = (
        name
        for name, logger in list(logging.Logger.manager.loggerDict.items())
        if isinstance(logger, logging.Logger)
    )
    return {name: _level_of(_logger(name)) for name in (ROOT, *sorted(names))}


def set_logger_levels(operations: Iterable[tuple[str, int, str | None]]) -> None:
    """The operations are valid: see configs.validate_logger_operations."""
    for name, operation, level in operations:
        if operation == Operation.SET and level is not None:
            _logger(name).setLevel(LEVELS[level])
        else:
            _logger(name).setLevel(logging.NOTSET)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _level_of(logger: logging.Logger) -> str:
    """The quietest of Kafka's levels that still lets through what this logger does."""
    threshold = logger.getEffectiveLevel()
    return next((name for name, number in LEVELS.items() if number >= threshold), "FATAL")
