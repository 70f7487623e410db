"""What a running Apache Kafka 4.3.1 answered to DescribeConfigs: every config of a broker, a topic and a group."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from penstock.broker.config import Definition
from penstock.broker.config.definitions import Scope

_SCOPES = {"read-only": Scope.READ_ONLY, "per-broker": Scope.PER_BROKER, "cluster": Scope.CLUSTER, "": Scope.READ_ONLY}


class Row(NamedTuple):
    kind: str
    name: str
    type_name: str
    default: str | None
    scope: Scope
    is_sensitive: bool
    synonym: str


def _row(line: str) -> Row:
    kind, name, type_name, default, scope, sensitive, synonym = line.split("\t")
    known_default = None if default == "null" else default
    return Row(kind, name, type_name, known_default, _SCOPES[scope], sensitive == "sensitive", synonym)


ROWS = [_row(line) for line in (Path(__file__).parent / "kafka-4.3.1.tsv").read_text().splitlines()]


def rows(kind: str) -> list[Row]:
    return [row for row in ROWS if row.kind == kind]


def is_kafkas(definition: Definition, row: Row, default: str | None = None) -> bool:
    """Whether a definition says what Kafka says; `default` stands in for Kafka's where Penstock has its own."""
    return (definition.type.name, definition.scope, definition.is_sensitive, definition.default) == (
        row.type_name,
        row.scope,
        row.is_sensitive,
        row.default if default is None else default,
    )
