"""What a mutant changes, whether it matters, and which survivors have been reviewed."""

from __future__ import annotations

import ast
import difflib
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

_LOGGERS = ("_log", "log", "logger", "_logger")
_ERRORS_OF_KAFKA = re.findall(
    r"^class (\w+)\(", (Path(__file__).parents[2] / "src/penstock/wire/errors.py").read_text(), re.MULTILINE
)
"""Read and not imported: what is imported before mutmut begins stays as it is, without mutants."""


@dataclass(frozen=True)
class Change:
    """What a mutant does to a function: a key that stays the same when other functions change."""

    function: str
    lines: tuple[str, ...]
    """As in a diff: the lines that go, with `-`, and those that come, with `+`."""
    is_message: bool
    """Whether it only changes what an error, a log or an assertion says, or names a default."""

    @property
    def key(self) -> tuple[str, ...]:
        return (self.function, *(re.sub(r"\s+", " ", line) for line in self.lines))

    def __str__(self) -> str:
        return "\n".join((self.function, *self.lines))


def change_between(mutant: str, original: str, mutated: str) -> Change:
    """What makes the source of a mutant differ from that of its function."""
    module, _, mangled = mutant.rpartition(".")
    name = mangled.partition("__mutmut_")[0].removeprefix("xǁ").replace("ǁ", ".")
    function = f"{module}.{name.removeprefix('x_')}"
    before, after = _plain(original), _plain(mutated)
    lines = tuple(
        f"{line[0]} {line[2:].strip()}"
        for line in difflib.ndiff(before.splitlines(), after.splitlines())
        if line[0] in "+-"
    )
    return Change(function, lines, _is_message(ast.parse(before), ast.parse(after)))


def read_reviewed(path: Path) -> set[tuple[str, ...]]:
    """The keys of the survivors that have been looked at.

    Blocks are separated by empty lines: the function, the lines of the change, and after `why:` the reason why no test
    has to find it.
    """
    if not path.exists():
        return set()
    reviewed = set()
    for block in path.read_text().split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if lines:
            if not any(line.startswith("why: ") for line in lines):
                raise ValueError(f"{path}: a block without a reason:\n{block}")
            reviewed.add(tuple(re.sub(r"\s+", " ", line) for line in lines if not line.startswith("why: ")))
    return reviewed


def _plain(source: str) -> str:
    """A function under its own name, without decorators of mutmut."""
    return re.sub(r"(def )(?:x_|xǁ\w+ǁ)(\w+?)__mutmut_\w+", r"\1\2", textwrap.dedent(source))


def _is_message(before: ast.AST, after: ast.AST) -> bool:
    """Whether the trees differ only inside of the message of an error, a log or an assertion, or by a default."""
    if ast.dump(before) == ast.dump(after):
        return True
    if type(before) is not type(after):
        return False
    if isinstance(before, ast.Raise) and isinstance(after, ast.Raise):
        return _called(before.exc) == _called(after.exc) and ast.dump(before.exc or before) != ast.dump(
            after.exc or after
        )
    if isinstance(before, ast.Assert):
        return True
    if isinstance(before, ast.Call) and isinstance(after, ast.Call):
        if _is_log(before):
            return _is_log(after)
        if _is_error(before) and _is_error(after):
            return _called(before) == _called(after)
        if _without_defaults(before) == _without_defaults(after):
            return True
    mine, theirs = list(ast.iter_child_nodes(before)), list(ast.iter_child_nodes(after))
    if len(mine) != len(theirs):
        return False
    differing = [pair for pair in zip(mine, theirs, strict=True) if ast.dump(pair[0]) != ast.dump(pair[1])]
    return bool(differing) and all(_is_message(*pair) for pair in differing)


def _called(expression: ast.expr | None) -> str | None:
    return ast.dump(expression.func) if isinstance(expression, ast.Call) else None


def _is_error(call: ast.Call) -> bool:
    """Whether an error of Kafka's is made, whose one argument is its message."""
    return isinstance(call.func, ast.Name) and call.func.id in _ERRORS_OF_KAFKA


def _without_defaults(call: ast.Call) -> str:
    """A call without `strict` of zip, which asserts what holds, and without the None of `get(key, None)`."""
    arguments, keywords = call.args, call.keywords
    if isinstance(call.func, ast.Name) and call.func.id == "zip":
        keywords = []
    elif isinstance(call.func, ast.Attribute) and call.func.attr in ("get", "setdefault") and len(arguments) == 2:
        arguments = [each for each in arguments if ast.dump(each) != "Constant(value=None)"]
    return ast.dump(ast.Call(call.func, arguments, keywords))


def _is_log(call: ast.Call) -> bool:
    return (
        isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id in _LOGGERS
    )
