"""A group's configs: they are Kafka's, are bounded by the broker's, and are read where they are described as obeyed."""

from __future__ import annotations

import pytest

from penstock.broker.config import BROKER, GROUP
from penstock.broker.config.group import BROKER_BOUNDS, BROKER_SYNONYMS
from tests.broker.config.kafka_tables import Row, is_kafkas, rows
from tests.broker.config.use import is_read

ROWS = rows("group")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_config_is_kafkas(row: Row) -> None:
    assert is_kafkas(GROUP[row.name], row)


def test_what_kafka_does_not_show_is_internal() -> None:
    shown = {row.name for row in ROWS}
    assert all(name in shown or definition.is_internal for name, definition in GROUP.items())


def test_groups_fall_back_on_the_brokers_configs_that_kafka_names() -> None:
    for row in ROWS:
        if row.synonym and row.synonym != row.name:
            assert BROKER_SYNONYMS[row.name] == row.synonym


def test_every_config_that_stands_in_and_every_bound_exists() -> None:
    assert all(name in BROKER for name in BROKER_SYNONYMS.values())
    assert all(bound in BROKER for bounds in BROKER_BOUNDS.values() for bound in bounds)


@pytest.mark.parametrize("name", GROUP)
def test_a_config_is_read_unless_it_says_that_it_is_not(name: str) -> None:
    assert is_read(name) == GROUP[name].is_used
