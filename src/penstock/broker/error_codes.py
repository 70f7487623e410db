"""Finds the error codes in a response of any API, by a function made from the schema of the response."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from penstock.wire import schema
from penstock.wire.compiler import ERROR_CODES
from penstock.wire.messages import Message

Finder = Callable[[Message], list[int] | None]


def finder(kind: type[Message]) -> Finder:
    """A function that returns the error codes in a response of this kind, or None if there are none."""
    lines = ["def find(response):", "    found = None", *_lines(kind.SCHEMA.fields, "response", 1), "    return found"]
    namespace: dict[str, object] = {}
    # Nothing but the schemas of the protocol is in the source.
    exec("\n".join(lines), namespace)
    return cast(Finder, namespace["find"])


def _lines(fields: list[schema.Field], parent: str, depth: int) -> list[str]:
    indent = "    " * depth
    lines: list[str] = []
    for field in fields:
        name = f"{parent}.{field.name}"
        if field.name in ERROR_CODES and not field.is_array:
            lines += [f"{indent}if {name}:", f"{indent}    found = [*(found or ()), {name}]"]
        elif field.struct is not None and field.is_array:
            inner = _lines(field.struct.fields, f"each{depth}", depth + 1)
            if inner:
                lines += [f"{indent}for each{depth} in {name} or ():", *inner]
    return lines
