"""The broker's configs without a use: nothing reads them, and they say so."""

from __future__ import annotations

import pytest

from penstock.broker.config import BROKER, BrokerConfig
from penstock.broker.config.broker_unused import UNUSED
from tests.broker.config.use import broker_config_is_read


@pytest.mark.parametrize("name", [definition.name for definition in UNUSED])
def test_nothing_reads_a_config_without_a_use(name: str) -> None:
    assert not broker_config_is_read(name)
    assert not BROKER[name].is_used


def test_no_config_is_both_in_use_and_without() -> None:
    assert len({definition.name for definition in UNUSED}) == len(UNUSED)
    assert all(BROKER[definition.name] is definition for definition in UNUSED)


def test_one_that_is_set_is_accepted_described_as_such_and_listed() -> None:
    config = BrokerConfig({"num.io.threads": "4"})
    assert config.unused == ["num.io.threads"]
    entry = config.entries(["num.io.threads"])[0]
    assert (entry.value, entry.documentation) == ("4", "Accepted because Kafka has it; Penstock has no use for it.")
