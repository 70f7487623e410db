"""The page about errors quotes messages of the code, and has every warning and every error code of a broker."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import penstock
from tests.docs.errors_page import PAGE, page

TEXT = PAGE.read_text("utf-8")
SOURCES = Path(penstock.__file__).parent
LOGGING = ("broker", "catalog", "coordination", "log", "storage")
SEVERE = ("warning", "error", "exception", "critical")


def test_the_error_codes_are_those_that_are_sent() -> None:
    assert page(TEXT) == TEXT, "run python -m tests.docs.errors_page"


def test_every_quoted_message_is_in_the_code() -> None:
    known = [text for path in SOURCES.rglob("*.py") for text in texts(ast.parse(path.read_text("utf-8")))]
    assert len(quoted()) > 80
    assert [message for message in quoted() if not any(message in text for text in known)] == []


def test_every_warning_and_error_of_a_broker_is_on_the_page() -> None:
    logged = {message for package in LOGGING for path in (SOURCES / package).rglob("*.py") for message in severe(path)}
    assert len(logged) > 50
    assert sorted(message for message in logged if not is_quoted(message)) == []


def is_quoted(message: str) -> bool:
    return any(message == each or (len(each) > 15 and each in message) for each in quoted())


def quoted() -> list[str]:
    """The messages in the tables, as they are compared: placeholders are an ellipsis, the full stop is left out."""
    rows = re.findall(r"^\|(.*)\|$", TEXT[: TEXT.index("\n## Error codes")], re.MULTILINE)
    cells = [cell.strip() for row in rows for cell in row.split(" | ")[:2]]
    messages = [cell[1:-1] for cell in cells if re.fullmatch(r"`[^`]* [^`]*`", cell)]
    return [plain(message) for message in messages if not message.startswith("penstock ")]


def severe(path: Path) -> Iterator[str]:
    """What a module logs as a warning or worse."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Call(ast.Attribute(ast.Name("log" | "logger"), attr), [first, *_]) if attr in SEVERE:
                message = text_of(first)
                if message is not None and re.search(r"[a-z]{3}", message):
                    yield plain(message)


def texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        message = text_of(node)
        if message is not None:
            yield plain(message)


def text_of(node: ast.AST) -> str | None:
    """The text of a literal, in which an ellipsis stands for what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    return None


def plain(text: str) -> str:
    text = re.sub(r"%[-\d.]*[a-z]|\{\w*\}", "…", text)
    return re.sub(r"…+", "…", text).rstrip(". …")
