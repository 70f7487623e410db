"""Writes docs/reference/api.md from docstrings. Run it as `python -m tests.docs.api_page`.

The modules of `penstock.spark` are read, not imported, because Spark is not installed where the tests usually run.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path

import penstock.checks
import penstock.client
import penstock.client.sync
import penstock.spark
import penstock.testing
from penstock.wire.errors import ErrorCode

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "api.md"

_INTRODUCTION = """\
# Python API

Every public class and function of `penstock.client`, `penstock.testing`, `penstock.spark` and `penstock.checks`, from
the docstrings. [The Python client](client.md) explains the client with examples and lists its settings; [Test with a
real broker](../how-to/testing.md) introduces the test fixtures, [Run pipelines on Spark](../how-to/spark.md) the
pipelines, and [Checks of histories](checks.md) the checks. Calls marked `async` are awaited; in `penstock.client.sync`
the same calls block.

This page is generated from the code (`python -m tests.docs.api_page`).
"""
_SOURCES = Path(penstock.client.__file__).parents[2]
PIPELINES = ("TableSink", "TopicSink", "QueueSink", "run", "RunSummary")
"""What a file with a pipeline needs besides `penstock.spark`."""
_CLIENTS = ("Producer", "Consumer", "ShareConsumer", "Admin", "Cluster")


def page() -> str:
    names = [*_CLIENTS, *sorted(set(penstock.client.__all__) - set(_CLIENTS))]
    client = "".join(_section(name, getattr(penstock.client, name)) for name in names)
    testing = "".join(_section(name, getattr(penstock.testing, name)) for name in sorted(penstock.testing.__all__))
    parts = {"client": client, "testing": testing, "spark": _spark(), "checks": _checks()}
    text = _INTRODUCTION + "".join(f"\n## penstock.{name}\n{part}" for name, part in parts.items())
    return re.sub(r"\n{3,}", "\n\n", text)


def _checks() -> str:
    return "".join(_section(name, getattr(penstock.checks, name)) for name in sorted(penstock.checks.__all__))


def _spark() -> str:
    package = "".join(_read_section(name, penstock.spark.HOMES[name]) for name in sorted(penstock.spark.__all__))
    more = "".join(_read_section(name, "penstock.spark.pipelines") for name in PIPELINES)
    return f"{package}\n## penstock.spark.pipelines\n{more}"


def _read_section(name: str, module: str) -> str:
    """The section of a class or function whose module is read."""
    tree = ast.parse((_SOURCES / f"{module.replace('.', '/')}.py").read_text("utf-8"))
    (item,) = (each for each in tree.body if isinstance(each, ast.ClassDef | ast.FunctionDef) and each.name == name)
    shown = [f"`{_read_signature(item)}`"]
    if text := ast.get_docstring(item):
        shown.append(_prose(text))
    lines = [f"\n### {name}\n", "\n\n".join(shown) + "\n"]
    if isinstance(item, ast.ClassDef) and not _is_data_source(item):
        lines += [f"- {entry}" for entry in _read_members(item)]
    return "\n".join(lines) + "\n"


def _is_data_source(item: ast.ClassDef) -> bool:
    """Whether Spark calls the methods, not a program."""
    return any(isinstance(base, ast.Name) and base.id == "DataSource" for base in item.bases)


def _read_members(item: ast.ClassDef) -> Iterator[str]:
    """Fields that say more than their name, properties and methods."""
    for member, below in zip(item.body, [*item.body[1:], None], strict=True):
        match member, below:
            case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                yield f"`{name}`: {_prose(text)}"
            case ast.FunctionDef(), _ if not member.name.startswith("_"):
                is_property = any(
                    isinstance(each, ast.Name) and each.id == "property" for each in member.decorator_list
                )
                shown = member.name if is_property else _read_signature(member)
                documented = ast.get_docstring(member)
                yield f"`{shown}`" + (f": {_prose(documented)}" if documented else "")


def _read_signature(item: ast.ClassDef | ast.FunctionDef) -> str:
    if isinstance(item, ast.FunctionDef):
        positional = item.args.args
        missing: list[ast.expr | None] = [None] * (len(positional) - len(item.args.defaults))
        shown = [_read_parameter(*each) for each in zip(positional, [*missing, *item.args.defaults], strict=True)]
        shown += ["*"] if item.args.kwonlyargs else []
        shown += [_read_parameter(*each) for each in zip(item.args.kwonlyargs, item.args.kw_defaults, strict=True)]
        shown += [f"**{item.args.kwarg.arg}"] if item.args.kwarg else []
        return f"{item.name}({', '.join(each for each in shown if each != 'self')})"
    if not item.decorator_list:
        return item.name
    fields = [each for each in item.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)]
    return f"{item.name}({', '.join(_read_parameter(ast.arg(each.target.id), each.value) for each in fields)})"  # type: ignore[union-attr]


def _read_parameter(parameter: ast.arg, default: ast.expr | None) -> str:
    if default is None:
        return parameter.arg
    is_simple = isinstance(default, ast.Constant) or (isinstance(default, ast.Tuple) and not default.elts)
    return f"{parameter.arg}={ast.unparse(default) if is_simple else '…'}"


def _section(name: str, item: object) -> str:
    lines = [f"\n### {name}\n", _documented(name, item)]
    if inspect.isclass(item):
        lines += [f"- {entry}" for entry in _members(item)]
    return "\n".join(lines) + "\n"


def _documented(name: str, item: object) -> str:
    if item is ErrorCode:
        return "Kafka's [error codes](errors.md#error-codes) by name, for `Broker.fail`.\n"
    if item is penstock.checks.Operation:
        return "One line of a history: a dict with [the fields of an operation](checks.md).\n"
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
