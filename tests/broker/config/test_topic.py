"""A topic's configs: they are Kafka's, fall back on the broker's, and are read where they are described as obeyed."""

from __future__ import annotations

import pytest

from penstock.broker.config import BROKER, TOPIC
from penstock.broker.config.topic import BROKER_SYNONYMS
from tests.broker.config.kafka_tables import Row, is_kafkas, rows
from tests.broker.config.use import topic_config_is_read

ROWS = rows("topic")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_config_is_kafkas(row: Row) -> None:
    assert is_kafkas(TOPIC[row.name], row)


def test_what_kafka_does_not_show_is_internal() -> None:
    shown = {row.name for row in ROWS}
    assert all(name in shown or definition.is_internal for name, definition in TOPIC.items())


def test_topics_fall_back_on_the_brokers_configs_that_kafka_names() -> None:
    for row in ROWS:
        if row.synonym:
            assert BROKER_SYNONYMS[row.name][0][0] == row.synonym


def test_every_config_that_stands_in_exists() -> None:
    assert all(name in BROKER for synonyms in BROKER_SYNONYMS.values() for name, _ in synonyms)


@pytest.mark.parametrize("name", TOPIC)
def test_a_config_is_read_unless_it_says_that_it_is_not(name: str) -> None:
    assert topic_config_is_read(name) == TOPIC[name].is_used
