"""Writes docs/reference/api.md from the docstrings of the client. Run it as `python -m tests.docs.api_page`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path

import penstock.client
import penstock.client.sync
import penstock.testing
from penstock.wire.errors import ErrorCode

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "api.md"

_INTRODUCTION = """\
# Python API

Every public class and function of `penstock.client` and `penstock.testing`, from the docstrings. [The Python
client](client.md) explains the client with examples and lists its settings; [Test with a real
broker](../how-to/testing.md) introduces the test fixtures. Calls marked `async` are awaited; in `penstock.client.sync`
the same calls block.

This page is generated from the code (`python -m tests.docs.api_page`).
"""
_CLIENTS = ("Producer", "Consumer", "ShareConsumer", "Admin", "Cluster")


def page() -> str:
    names = [*_CLIENTS, *sorted(set(penstock.client.__all__) - set(_CLIENTS))]
    client = "".join(_section(name, getattr(penstock.client, name)) for name in names)
    testing = "".join(_section(name, getattr(penstock.testing, name)) for name in sorted(penstock.testing.__all__))
    text = f"{_INTRODUCTION}\n## penstock.client\n{client}\n## penstock.testing\n{testing}"
    return re.sub(r"\n{3,}", "\n\n", text)


def _section(name: str, item: object) -> str:
    lines = [f"\n### {name}\n", _documented(name, item)]
    if inspect.isclass(item):
        lines += [f"- {entry}" for entry in _members(item)]
    return "\n".join(lines) + "\n"


def _documented(name: str, item: object) -> str:
    if item is ErrorCode:
        return "Kafka's [error codes](errors.md#error-codes) by name, for `Broker.fail`.\n"
    text = inspect.getdoc(item) if inspect.isclass(item) or inspect.isroutine(item) else None
    shown = "" if inspect.isclass(item) and issubclass(item, Enum) else _signature(name, item)
    generated = text is None or text.startswith((f"{name}(", "str(object", "Enum where members"))
    return "\n\n".join(part for part in (shown, "" if generated else _prose(text or "")) if part) + "\n"


def _members(item: type) -> Iterator[str]:
    """The public members of a class that it defines or takes from a base of ours."""
    if issubclass(item, Enum):
        shown = [] if item is ErrorCode else list(item)
        yield from (f"`{each.name}`" for each in shown)
        return
    if issubclass(item, BaseException):
        return
    for name, member in inspect.getmembers(item):
        if name.startswith("_") or not _is_ours(item, name):
            continue
        if isinstance(member, property):
            yield f"`{name}`{_brief(member)}"
        elif callable(member):
            yield f"{_signature(name, member)}{_brief(member)}"


def _is_ours(item: type, name: str) -> bool:
    owner = next(base for base in item.__mro__ if name in vars(base))
    field = is_dataclass(owner) and name in getattr(owner, "__dataclass_fields__", {})
    return owner.__module__.startswith("penstock.") and not field


def _signature(name: str, item: object) -> str:
    try:
        signature = inspect.signature(item)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return f"`{name}`"
    parameters = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
    shown = ", ".join(_parameters(parameters))
    word = "async " if inspect.iscoroutinefunction(item) or inspect.isasyncgenfunction(item) else ""
    return f"`{word}{name}({shown})`"


def _parameters(parameters: list[inspect.Parameter]) -> Iterator[str]:
    starred = False
    for each in parameters:
        if each.kind is inspect.Parameter.VAR_POSITIONAL:
            starred = True
            yield f"*{each.name}"
        elif each.kind is inspect.Parameter.VAR_KEYWORD:
            yield f"**{each.name}"
        else:
            if each.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
                starred = True
                yield "*"
            simple = each.default is None or isinstance(each.default, (bool, int, float, str, tuple))
            default = repr(each.default) if simple and not isinstance(each.default, Enum) else "…"
            yield each.name if each.default is inspect.Parameter.empty else f"{each.name}={default}"


def _brief(member: object) -> str:
    text = inspect.getdoc(member)
    return f": {_prose(text)}" if text else ""


def _prose(text: str) -> str:
    """A docstring as Markdown: examples that are indented stay as they are, lines of a paragraph are joined."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text))
    return "\n\n".join(each if each.startswith("    ") else " ".join(each.split()) for each in paragraphs)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
