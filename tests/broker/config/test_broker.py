"""The broker's configs: they are Kafka's, and those that are described as obeyed are read."""

from __future__ import annotations

import pytest

from penstock.broker.config import BROKER
from penstock.broker.config.broker import SYNONYMS
from tests.broker.config.kafka_tables import Row, is_kafkas, rows
from tests.broker.config.use import broker_config_is_read

ROWS = rows("broker")

# Penstock sends through `sendfile` and reads into one buffer: other sizes are the fast ones (measured with make bench).
OWN_DEFAULTS = {
    "socket.listen.backlog.size": "1024",
    "socket.receive.buffer.bytes": "-1",
    "socket.send.buffer.bytes": "409600",
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_config_is_kafkas(row: Row) -> None:
    assert is_kafkas(BROKER[row.name], row, OWN_DEFAULTS.get(row.name))


def test_what_kafka_does_not_show_is_internal_or_penstocks_own() -> None:
    shown = {row.name for row in ROWS}
    for name, definition in BROKER.items():
        assert name in shown or definition.is_internal or name.startswith("penstock.")


@pytest.mark.parametrize("name", [name for name, definition in BROKER.items() if definition.is_used])
def test_a_config_that_is_described_as_obeyed_is_read(name: str) -> None:
    assert broker_config_is_read(name)


def test_configs_of_the_same_meaning_exist_and_stand_for_one_thing_each() -> None:
    names = [name for group in SYNONYMS for name in group]
    assert all(name in BROKER for name in names)
    assert len(set(names)) == len(names)
