"""No `assert` in the source has an effect: `python -O` leaves all of them out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock

SOURCE = Path(penstock.__file__).parent

# Functions that only look. A new one may be added here if it does nothing else.
PURE = frozenset({"all", "any", "c.only", "callable", "inspect.iscoroutine", "isinstance", "issubclass", "len"})


def modules() -> list[ast.Module]:
    return [ast.parse(path.read_text(), str(path.relative_to(SOURCE))) for path in sorted(SOURCE.rglob("*.py"))]


def computed_attributes(module: ast.AST) -> Iterator[str]:
    """The names of cached properties: reading one for the first time runs code that is meant to have an effect."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef) and any("cached_property" in ast.unparse(d) for d in node.decorator_list):
            yield node.name


def effects(module: ast.AST, computed: frozenset[str]) -> Iterator[str]:
    """The asserts that do something besides looking."""
    for node in ast.walk(module):
        if isinstance(node, ast.Assert) and any(has_effect(part, computed) for part in ast.walk(node)):
            yield ast.unparse(node)


def has_effect(part: ast.AST, computed: frozenset[str]) -> bool:
    if isinstance(part, ast.Call):
        return ast.unparse(part.func) not in PURE
    if isinstance(part, ast.Attribute):
        return part.attr in computed
    return isinstance(part, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom)


def test_no_assert_has_an_effect() -> None:
    parsed = modules()
    assert len(parsed) > 100
    computed = frozenset(name for module in parsed for name in computed_attributes(module))
    assert [found for module in parsed for found in effects(module, computed)] == []


@pytest.mark.parametrize(
    "code",
    [
        "assert queue.pop() is slot",
        "assert (found := look()) is not None",
        "assert self.groups is not None",
        "assert all((self.groups, self.names))",
    ],
)
def test_an_assert_with_an_effect_would_be_found(code: str) -> None:
    assert list(effects(ast.parse(code), frozenset({"groups"}))) == [code]


def test_an_assert_that_only_looks_is_fine() -> None:
    code = "assert isinstance(self.body, Body) and len(self.parts) == 1, 'a reason'"
    assert list(effects(ast.parse(code), frozenset({"groups"}))) == []
