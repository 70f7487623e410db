"""Writes docs/reference/messages.md from the code. Run it as `python -m tests.docs.messages_page`.

The messages are the texts with which exceptions for users are made. What is filled in is an ellipsis.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import penstock

SOURCES = Path(penstock.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "messages.md"
ROOTS = {"Failure", "UsageError", "MirrorError", "TopicStopped", "AdoptionError", "CertificateError"}
"""Exceptions for users; so are those that are derived from them."""
PARTS = {
    "Commands": ("cli",),
    "Python client": ("client", "records"),
    "Mirror": ("mirror",),
    "Spark": ("spark",),
    "Folders of Apache Kafka, backups and certificates": ("adoption", "operation", "certificates.py"),
}
_INTRODUCTION = """\
# Messages of commands and calls

Every message with which a command ends or a call is refused, and what it advises. `…` stands for a name, an address or
a number. The class is what a Python program catches; a command prints the message and ends with status 1. What the
broker logs, why it does not start, and the error codes that it sends are in [Error messages](errors.md).

This page is generated from the code (`python -m tests.docs.messages_page`).
"""


class Message(NamedTuple):
    text: str
    advice: str
    error: str


def page() -> str:
    sections = (f"\n## {title}\n\n{_table(messages_of(places))}" for title, places in PARTS.items())
    return _INTRODUCTION + "".join(sections)


def messages_of(places: tuple[str, ...]) -> list[Message]:
    names = classes()
    found = {message for path in files(places) for message in messages_in(ast.parse(path.read_text("utf-8")), names)}
    return sorted(found, key=lambda message: (message.text.lstrip("…'\" ").lower(), message))


def files(places: tuple[str, ...]) -> list[Path]:
    """The modules of some packages."""
    roots = (SOURCES / place for place in places)
    return [path for root in roots for path in ([root] if root.suffix else sorted(root.rglob("*.py")))]


def classes() -> set[str]:
    """The exceptions for users by name."""
    defined = [
        (each.name, {base.id for base in each.bases if isinstance(base, ast.Name)})
        for path in SOURCES.rglob("*.py")
        for each in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(each, ast.ClassDef)
    ]
    names = set(ROOTS)
    while more := {name for name, bases in defined if bases & names} - names:
        names |= more
    return names


def messages_in(tree: ast.Module, names: set[str]) -> Iterator[Message]:
    for scope in ast.walk(tree):
        if isinstance(scope, ast.ClassDef) and scope.name in names:
            for call in ast.walk(scope):
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "super().__init__" and call.args:
                    yield from _read(call.args[0], scope, scope.name)
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
            for call in ast.walk(scope):
                match call:
                    case ast.Call(ast.Name(name), [first, *_]) if name in names:
                        yield from _read(first, scope, name)


def _read(first: ast.expr, scope: ast.AST, name: str) -> Iterator[Message]:
    text = text_of(first, scope)
    if text is None:
        return
    head, *rest = [" ".join(line.split()) for line in text.strip("\n").split("\n")]
    if re.search(r"[a-z]{3}", head):
        yield Message(head, "; ".join(filter(None, rest)), name)


def text_of(node: ast.expr, scope: ast.AST) -> str | None:
    """The text of an expression, as far as the function that it is in says it."""
    match node:
        case ast.Constant(str(text)):
            return text
        case ast.JoinedStr(values):
            parts = [part.value if isinstance(part, ast.Constant) else "…" for part in values]
            return re.sub("…+", "…", "".join(map(str, parts)))
        case ast.BinOp(left, ast.Add(), right):
            both = [text_of(left, scope), text_of(right, scope)]
            return None if both[0] is None else f"{both[0]}{both[1] or '…'}"
        case ast.Call(ast.Attribute(ast.Constant("\n"), "join"), [joined]):
            return text_of(joined, scope)
        case ast.List(elements):
            lines = [text_of(each, scope) for each in elements]
            return "\n".join("…" if line is None else line for line in lines)
        case ast.Name(name):
            return _assigned(name, scope)
    return None


def _assigned(name: str, scope: ast.AST) -> str | None:
    """What a variable is given in a function, with the lines that are appended to it."""
    text = None
    for each in ast.walk(scope):
        match each:
            case ast.Assign([ast.Name(found)], value) if found == name and not isinstance(value, ast.Name):
                text = text_of(value, scope)
            case ast.Call(ast.Attribute(ast.Name(found), "append"), [line]) if found == name and text is not None:
                text += f"\n{text_of(line, scope) or '…'}"
    return text


def _table(messages: list[Message]) -> str:
    rows = [f"| {_code(message.text)} | {_code(message.advice)} | `{message.error}` |\n" for message in messages]
    return "| message | advice | class |\n|---|---|---|\n" + "".join(rows)


def _code(text: str) -> str:
    if not text:
        return ""
    ticks = "``" if "`" in text else "`"
    space = " " if "`" in text else ""
    return f"{ticks}{space}{text.replace('|', chr(92) + '|')}{space}{ticks}"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
