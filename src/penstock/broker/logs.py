"""The lines of the broker's log: one for each message, whatever the names in it.

Clients choose names (of groups, topics, users, themselves), and names get into messages. One with a line break could
pretend to be another line, one with an escape sequence could change what a terminal shows. So whatever cannot be
printed is escaped, and the lines of a traceback are indented: no line of a message begins like a line of the log.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from enum import StrEnum

from penstock.broker.config import ConfigError

LEVELS = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
"""By the names of Kafka's logging."""
_OTHER_NAMES = {"WARNING": "WARN", "CRITICAL": "FATAL"}
LEVEL_VARIABLE = "PENSTOCK_LOG"
FORMAT = "%(asctime)s %(levelname)s %(message)s"


class EscapingFormatter(logging.Formatter):
    def __init__(self, node_id: int | None = None) -> None:
        super().__init__(FORMAT if node_id is None else FORMAT.replace("%(message)s", f"broker {node_id}: %(message)s"))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return escaped(super().formatMessage(record))

    def formatException(self, ei: object) -> str:  # noqa: N802
        lines = super().formatException(ei).splitlines()  # type: ignore[arg-type]
        return "\n".join(f"    {escaped(line)}" for line in lines)


def escaped(text: str) -> str:
    """The text with everything that cannot be printed written as Python would write it."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)


class JsonFormatter(logging.Formatter):
    """One JSON object for each message, its traceback included, on one line."""

    def __init__(self, node_id: int | None = None) -> None:
        super().__init__()
        self._node_id = node_id

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        event: dict[str, object] = {
            "time": f"{moment}.{int(record.msecs):03}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if self._node_id is not None:
            event["broker"] = self._node_id
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return json.dumps(event)


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


def configure(
    environment: Mapping[str, str], log_format: LogFormat = LogFormat.TEXT, node_id: int | None = None
) -> None:
    """Have messages written to standard error, from the level in PENSTOCK_LOG on; `node_id` is of the broker, where
    there are several. Raises ConfigError if there is no such level."""
    level = _level(environment.get(LEVEL_VARIABLE) or "WARN")
    handler = logging.StreamHandler()
    handler.setFormatter((JsonFormatter if log_format == LogFormat.JSON else EscapingFormatter)(node_id))
    logging.basicConfig(level=level, handlers=[handler], force=node_id is not None)


def _level(name: str) -> int:
    known = _OTHER_NAMES.get(name.upper(), name.upper())
    if known not in LEVELS:
        raise ConfigError(f"{LEVEL_VARIABLE} is {name!r}; the levels of the log are {', '.join(LEVELS)}.")
    return LEVELS[known]
