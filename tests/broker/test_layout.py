"""The broker package stays readable: one job per module, which its first line says, and a test module for each."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import penstock.broker

SOURCE = Path(penstock.broker.__file__).parent
TESTS = Path(__file__).parent
MODULES = sorted(path.relative_to(SOURCE) for path in SOURCE.rglob("*.py"))
MAX_LINES = 500


def name(module: object) -> str:
    return str(module)


def test_there_are_modules_to_look_at() -> None:
    assert Path("server.py") in MODULES
    assert Path("handlers/produce.py") in MODULES


@pytest.mark.parametrize("module", [each for each in MODULES if each.name != "__init__.py"], ids=name)
def test_a_module_has_its_own_test_module(module: Path) -> None:
    tests = TESTS / module.with_name(f"test_{module.name}")
    assert tests.is_file(), f"write tests/broker/{tests.relative_to(TESTS)}"


@pytest.mark.parametrize("module", MODULES, ids=name)
def test_a_module_fits_in_500_lines(module: Path) -> None:
    lines = len((SOURCE / module).read_text().splitlines())
    assert lines <= MAX_LINES, f"{module} has {lines} lines: split it by its jobs"


@pytest.mark.parametrize("module", MODULES, ids=name)
def test_the_first_line_of_a_module_says_its_job(module: Path) -> None:
    docstring = ast.get_docstring(ast.parse((SOURCE / module).read_text()))
    assert docstring, f"{module} has no docstring"
    first, *rest = docstring.splitlines()
    assert first.endswith((".", ":")), f"the first line of {module} is no sentence: {first!r}"
    assert len(first.split()) >= 3, f"the first line of {module} says too little: {first!r}"
    assert not rest or not rest[0], f"the first line of {module} goes on in the second: {first!r}"
