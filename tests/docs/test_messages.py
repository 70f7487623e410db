"""The page about messages has every text with which an exception for users is made."""

from __future__ import annotations

import ast

from penstock.client import errors
from tests.docs.messages_page import PAGE, ROOTS, Message, classes, messages_in, page


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text("utf-8") == page(), "run python -m tests.docs.messages_page"


def test_every_family_of_exceptions_is_there() -> None:
    names = classes()
    assert names > ROOTS
    assert {"IllegalState", "SetupError", "TakenOver"} <= names
    assert errors.IllegalState.__name__ in PAGE.read_text("utf-8")


def found(code: str) -> list[Message]:
    return list(messages_in(ast.parse(code), {"Failure"}))


def test_what_is_filled_in_is_an_ellipsis() -> None:
    assert found("def f(a):\n raise Failure(f'none {a!r}: ' f'{a}{a}')") == [Message("none …: …", "", "Failure")]


def test_the_lines_below_the_first_are_advice() -> None:
    assert found("def f():\n raise Failure('none.\\n  Try:  this\\n  Or: that')") == [
        Message("none.", "Try: this; Or: that", "Failure")
    ]
    assert found("def f():\n lines = ['none.']\n lines.append('  Try: this')\n raise Failure('\\n'.join(lines))") == [
        Message("none.", "Try: this", "Failure")
    ]
