"""Java's properties files, in which Kafka's brokers, clients and tools are configured."""

from __future__ import annotations

import re

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
