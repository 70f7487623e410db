"""Which configs the source reads.

A config that is described as obeyed is read somewhere; one that nothing reads says so (it has no documentation).
Otherwise somebody sets it, sees it accepted, and waits for an effect that never comes. Reading is found in the source:
an attribute of `config`, a look-up by name (`configs["name"]`, `configs.get("name")`, a name put
together as in `f"compression.{codec}.level"`), or a field of `LogConfig`, which takes topics' configs by the names of
its fields.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import penstock
from penstock.broker.config import BROKER, GROUP, TOPIC
from penstock.broker.config import group as group_table
from penstock.broker.config import topic as topic_table
from penstock.log.config import LogConfig

SOURCE = Path(penstock.__file__).parent
TABLES = {
    SOURCE / "broker" / "config" / f"{name}.py" for name in ("broker", "broker_unused", "group", "topic", "values")
}
PACKAGES = ("broker", "cli", "groups", "log", "queues", "records", "transactions")
BEARERS = ("config", "_config")
ALL = {*BROKER, *GROUP, *TOPIC}


@cache
def attributes_read() -> frozenset[str]:
    """Names of attributes that are read from something called `config`, anywhere but in the tables themselves."""
    return frozenset(
        node.attr
        for node in nodes()
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Load)
        and (node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")) in BEARERS
    )


@cache
def names_read() -> re.Pattern[str]:
    """What is looked up by a name in dots, as one pattern."""
    looked_up = [argument for node in nodes() for argument in look_ups(node)]
    return re.compile("|".join(sorted({pattern for node in looked_up for pattern in patterns(node)})))


def look_ups(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield node.slice
    elif isinstance(node, ast.Call):
        yield from node.args
    elif isinstance(node, ast.Assign):
        yield node.value


def patterns(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and node.value in ALL:
        yield re.escape(str(node.value))
    elif isinstance(node, ast.JoinedStr):
        parts = [re.escape(str(part.value)) if isinstance(part, ast.Constant) else r"\w+" for part in node.values]
        if all(re.fullmatch(r"[\w.\\+]+", part) for part in parts) and r"\." in parts[0]:
            yield "".join(parts)


@cache
def nodes() -> list[ast.AST]:
    files = [path for package in PACKAGES for path in (SOURCE / package).rglob("*.py") if path not in TABLES]
    return [node for path in files for node in ast.walk(ast.parse(path.read_text()))]


def is_read(name: str) -> bool:
    return name.replace(".", "_") in attributes_read() or bool(names_read().fullmatch(name))


def topic_config_is_read(name: str) -> bool:
    return name.replace(".", "_") in {field.name for field in fields(LogConfig)} or bool(names_read().fullmatch(name))


def broker_config_is_read(name: str) -> bool:
    """By the broker itself, or as what stands in for the config of a topic or a group, or bounds it."""
    heirs = [topic for topic, synonyms in topic_table.BROKER_SYNONYMS.items() if name in dict(synonyms)]
    if any(TOPIC[heir].is_used for heir in heirs):
        return True
    members = [group for group, synonym in group_table.BROKER_SYNONYMS.items() if synonym == name]
    members += [group for group, bounds in group_table.BROKER_BOUNDS.items() if name in bounds]
    return any(GROUP[member].is_used for member in members) or is_read(name)
