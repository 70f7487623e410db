"""Where a broker's static configs come from: Java's properties files, and the environment.

The environment variables are those of Apache Kafka's container images: `KAFKA_` and the name in capitals, with dots
written as underscores.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.broker.config.broker import BROKER

_ENVIRONMENT_PREFIX = "KAFKA_"
_LISTENER_VARIABLES = "KAFKA_LISTENER_NAME_"
_ESCAPE = r"(?s)\\(u[0-9a-fA-F]{4}|.)"
_KEY_END = r"(?<!\\)(?:\\\\)*(?:\s*[=:]\s*|\s+)"


def read_properties(text: str) -> dict[str, str]:
    """Read a Java properties file: `name=value`, `#` and `!` comments, lines continued by a backslash at their end."""
    properties: dict[str, str] = {}
    pending = ""
    for raw in text.splitlines():
        line = pending + raw.lstrip()
        if not line or (not pending and line[0] in "#!"):
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending = line[:-1]
            continue
        pending = ""
        _add_property(properties, line)
    if pending:
        _add_property(properties, pending)
    return properties


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The configs that variables such as KAFKA_NUM_PARTITIONS set. Others with that prefix belong to other programs."""
    names = {_variable(name): name for name in BROKER}
    found = {}
    for variable, value in environment.items():
        name = names.get(variable)
        if name is None and variable.startswith(_LISTENER_VARIABLES):
            name = re.sub(
                "___?|_",
                lambda match: {3: "-", 2: "_", 1: "."}[len(match[0])],
                variable.removeprefix(_ENVIRONMENT_PREFIX).lower(),
            )
        if name is not None:
            found[name] = value
    return found


def _variable(name: str) -> str:
    # As in Kafka's images: an underscore of the name is doubled, a dash tripled, so that dots are the single ones.
    return _ENVIRONMENT_PREFIX + name.replace("_", "__").replace("-", "___").replace(".", "_").upper()


def _add_property(properties: dict[str, str], line: str) -> None:
    end = re.search(_KEY_END, line)
    name, value = (line[: end.start()], line[end.end() :]) if end else (line, "")
    properties[_unescape(name)] = _unescape(value)


def _unescape(text: str) -> str:
    return re.sub(_ESCAPE, _unescaped, text) if "\\" in text else text


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    if len(escaped) == 5:
        return chr(int(escaped[1:], 16))
    return {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(escaped, escaped)
