"""The levels of the broker's loggers, as clients see and change them (BROKER_LOGGER resources).

As in Apache Kafka a level counts until the broker stops and is not stored. The names of levels are those of Kafka's
logging; `root` is what every logger without a level of its own follows. A logger is listed before the part that writes
to it is loaded, so that its level can be set in advance.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from penstock.broker.config import ConfigType, Entry
from penstock.broker.config.resolver import Source
from penstock.broker.logs import LEVELS
from penstock.wire.errors import InvalidConfig, InvalidRequest

ROOT = "root"

NAMES = (
    "penstock",
    "penstock.audit",
    "penstock.authorizer",
    "penstock.broker",
    "penstock.cluster",
    "penstock.coordinator",
    "penstock.log",
    "penstock.peers",
    "penstock.requests",
    "penstock.share",
    "penstock.storage",
    "penstock.transactions",
)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger() if name == ROOT else logging.getLogger(name)


def _level_name(level: int) -> str:
    """The name of the lowest level that is still written."""
    return next((name for name, number in LEVELS.items() if level <= number), "FATAL")


def entries(names: Collection[str] | None = None) -> list[Entry]:
    """Every logger with the level that holds for it."""
    return [
        Entry(
            name=name,
            value=_level_name(_logger(name).getEffectiveLevel()),
            source=Source.BROKER_LOGGER,
            read_only=False,
            is_sensitive=False,
            type=ConfigType.UNKNOWN,
            documentation="The lowest level of messages that are written.",
            synonyms=[],
        )
        for name in (ROOT, *NAMES)
        if names is None or name in names
    ]


def change(levels: Mapping[str, str | None], *, validate_only: bool = False) -> None:
    """Give loggers a level, or with None let them follow the one above them. Raises what Kafka answers, and has then
    changed nothing."""
    for name, level in levels.items():
        if name != ROOT and name not in NAMES:
            raise InvalidConfig(f"Logger {name} does not exist!")
        if level is None and name == ROOT:
            raise InvalidRequest(f"Removing the log level of the {ROOT} logger is not allowed")
        if level is not None and level.upper() not in LEVELS:
            raise InvalidConfig(
                f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
                f"Valid log levels are {', '.join(LEVELS)}"
            )
    if not validate_only:
        for name, level in levels.items():
            _logger(name).setLevel(logging.NOTSET if level is None else LEVELS[level.upper()])
