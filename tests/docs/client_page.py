"""Writes the tables of settings in docs/reference/client.md. Run it as `python -m tests.docs.client_page`.

What a setting means is in the code, below its field: there editors show it, and from there it comes here.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from penstock.client.config import ClientConfig, ConsumerConfig, ProducerConfig, ShareConsumerConfig
from penstock.client.security import SecurityConfig

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "client.md"
SECTIONS: dict[str, type] = {
    "Every client": ClientConfig,
    "TLS and SASL": SecurityConfig,
    "Producer": ProducerConfig,
    "Consumer": ConsumerConfig,
    "ShareConsumer": ShareConsumerConfig,
}
_TABLE = re.compile(r"\| setting \| default \| .*?\n(?=\n|\Z)", re.DOTALL)


def page(text: str) -> str:
    """The page with the tables that the code says, in place of those that it has."""
    introduction, heading, settings = text.partition("\n## Settings\n")
    parts = re.split(r"(?<=\n)(?=### )", settings)
    titles = [part.removeprefix("### ").partition("\n")[0] for part in parts[1:]]
    assert titles == list(SECTIONS), "the sections of the page are not those of the settings"
    tables = {title: table(config) for title, config in SECTIONS.items()}
    written = [
        _TABLE.sub(lambda _, title=title: tables[title], part) for title, part in zip(titles, parts[1:], strict=True)
    ]
    return introduction + heading + parts[0] + "".join(written)


def table(config: type) -> str:
    said = meanings(config)
    rows = [
        f"| `{field.name}` | `{shown(field.default)}` | {said.get(field.name, '')} |\n"
        for field in dataclasses.fields(config)
        if field.name in own_fields(config)
    ]
    return "| setting | default | meaning |\n|---|---|---|\n" + "".join(rows)


def own_fields(config: type) -> set[str]:
    """The settings that a class adds to those of the class below it."""
    below = {
        field.name
        for base in config.__mro__[1:]
        if dataclasses.is_dataclass(base)
        for field in dataclasses.fields(base)
    }
    return {field.name for field in dataclasses.fields(config)} - below


def meanings(config: type) -> dict[str, str]:
    """The texts below the fields of a class, by the fields' names."""
    return dict(_texts(ast.parse(textwrap.dedent(inspect.getsource(config)))))


def _texts(tree: ast.Module) -> Iterator[tuple[str, str]]:
    (made,) = tree.body
    assert isinstance(made, ast.ClassDef)
    for field, below in zip(made.body, made.body[1:], strict=False):
        match field, below:
            case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                yield name, " ".join(text.split()).replace("|", "\\|")


def shown(default: object) -> str:
    return '""' if default == "" else str(default)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
