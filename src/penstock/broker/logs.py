"""The lines of the broker's log: one for each message, whatever the names in it.

Clients choose names (of groups, topics, users, themselves), and names get into messages. One with a line break could
pretend to be another line, one with an escape sequence could change what a terminal shows. So whatever cannot be
printed is escaped, and the lines of a traceback are indented: no line of a message begins like a line of the log.
"""

from __future__ import annotations

import json
import logging
import time
from enum import StrEnum

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


def configure(level: str, log_format: LogFormat = LogFormat.TEXT, node_id: int | None = None) -> None:
    """Have messages from `level` on written to standard error; `node_id` is of the broker, where there are several."""
    handler = logging.StreamHandler()
    handler.setFormatter((JsonFormatter if log_format == LogFormat.JSON else EscapingFormatter)(node_id))
    logging.basicConfig(level=level, handlers=[handler], force=node_id is not None)
