"""The tables, against what a running Apache Kafka 4.3.1 answered to DescribeConfigs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock.broker.config import BROKER, GROUP, TOPIC, Definition
from penstock.broker.config import group as group_table
from penstock.broker.config import topic as topic_table
from penstock.broker.config.definitions import Scope

TABLES: dict[str, Mapping[str, Definition]] = {"broker": BROKER, "topic": TOPIC, "group": GROUP}
SCOPES = {"read-only": Scope.READ_ONLY, "per-broker": Scope.PER_BROKER, "cluster": Scope.CLUSTER, "": Scope.READ_ONLY}
ROWS = [line.split("\t") for line in (Path(__file__).parent / "kafka-4.3.1.tsv").read_text().splitlines()]

# Penstock sends through `sendfile` and reads into one buffer: other sizes are the fast ones (measured with make bench).
OWN_DEFAULTS = {
    "socket.listen.backlog.size": "1024",
    "socket.receive.buffer.bytes": "-1",
    "socket.send.buffer.bytes": "409600",
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}:{row[1]}")
def test_each_config_is_kafkas(row: list[str]) -> None:
    kind, name, type_name, default, scope, sensitive, _ = row
    definition = TABLES[kind][name]
    assert definition.type.name == type_name
    assert definition.scope is SCOPES[scope]
    assert definition.is_sensitive == (sensitive == "sensitive")
    assert definition.default == OWN_DEFAULTS.get(name, None if default == "null" else default)


@pytest.mark.parametrize("kind", TABLES)
def test_what_kafka_does_not_show_is_internal_or_penstocks_own(kind: str) -> None:
    shown = {row[1] for row in ROWS if row[0] == kind}
    for name, definition in TABLES[kind].items():
        assert name in shown or definition.is_internal or name.startswith("penstock.")


def test_topics_and_groups_fall_back_on_the_brokers_configs_that_kafka_names() -> None:
    for kind, name, *_, synonym in ROWS:
        if kind == "topic" and synonym:
            assert topic_table.BROKER_SYNONYMS[name][0][0] == synonym
        if kind == "group" and synonym and synonym != name:
            assert group_table.BROKER_SYNONYMS[name] == synonym


def test_every_synonym_and_bound_exists() -> None:
    for synonyms in topic_table.BROKER_SYNONYMS.values():
        assert all(name in BROKER for name, _ in synonyms)
    assert all(name in BROKER for name in group_table.BROKER_SYNONYMS.values())
    for name, (least, most) in group_table.BROKER_BOUNDS.items():
        assert least in BROKER, name
        assert most in BROKER, name
