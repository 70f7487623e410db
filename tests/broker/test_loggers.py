"""Levels of loggers at run time."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.broker import loggers
from penstock.wire.errors import InvalidConfig, InvalidRequest

NAME = "penstock.transactions"


@pytest.fixture(autouse=True)
def unchanged_afterwards() -> Iterator[None]:
    yield
    loggers.change({NAME: None})


def level(name: str) -> str | None:
    [entry] = loggers.entries([name])
    return entry.value


@pytest.mark.parametrize(
    ("name", "number"), [("TRACE", 5), ("DEBUG", 10), ("INFO", 20), ("WARN", 30), ("ERROR", 40), ("FATAL", 50)]
)
def test_a_level_holds_until_it_is_removed(name: str, number: int) -> None:
    before = level(NAME)
    loggers.change({NAME: name.lower()})
    assert logging.getLogger(NAME).level == number
    assert level(NAME) == name
    loggers.change({NAME: None})
    assert level(NAME) == before == level("penstock")


def test_a_refused_change_changes_nothing() -> None:
    before = level(NAME)
    for wrong, error in (
        ({NAME: "LOUD"}, InvalidConfig),
        ({"nobody": "INFO"}, InvalidConfig),
        ({"root": None}, InvalidRequest),
    ):
        with pytest.raises(error):
            loggers.change({NAME: "TRACE", **wrong})
        assert level(NAME) == before


def test_what_is_only_validated_is_not_changed() -> None:
    before = level(NAME)
    loggers.change({NAME: "TRACE"}, validate_only=True)
    assert level(NAME) == before


def test_every_logger_of_a_broker_can_be_given_a_level() -> None:
    not_of_brokers = {f"penstock.{name}" for name in ("client", "console", "simulation", "spark", "supervisor")}
    sources = Path(penstock.__file__).parent.rglob("*.py")
    used = {name for source in sources for name in re.findall(r'getLogger\("([\w.]+)"\)', source.read_text("utf-8"))}
    assert used - not_of_brokers == {*loggers.NAMES} - {"penstock"}
