"""No name that a client chooses can forge a line of the log, or change what a terminal shows."""

from __future__ import annotations

import io
import json
import logging

import pytest

from penstock.broker.config import ConfigError
from penstock.broker.logs import EscapingFormatter, JsonFormatter, configure, escaped

FORGED = "x\n2030-01-01 00:00:00,000 INFO all is well \x1b[2J\r\u2028"


@pytest.fixture
def written() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def log(written: io.StringIO) -> logging.Logger:
    handler = logging.StreamHandler(written)
    handler.setFormatter(EscapingFormatter())
    logger = logging.Logger("test")
    logger.addHandler(handler)
    return logger


def test_a_message_is_one_printable_line(log: logging.Logger, written: io.StringIO) -> None:
    log.warning("denied %s", FORGED)
    (line,) = written.getvalue().splitlines()
    assert line.isprintable()
    assert r"x\n2030-01-01" in line
    assert r"\x1b[2J\r\u2028" in line


def test_a_traceback_keeps_its_lines_and_none_begins_like_one_of_the_log(
    log: logging.Logger, written: io.StringIO
) -> None:
    try:
        raise ValueError(FORGED)
    except ValueError:
        log.exception("it failed")
    first, *rest = written.getvalue().splitlines()
    assert first.endswith("ERROR it failed")
    assert len(rest) > 3
    assert all(line.startswith("    ") and line.isprintable() for line in rest)


def test_names_of_all_languages_stay_readable() -> None:
    assert escaped("Büro-日本-🐘") == "Büro-日本-🐘"


def test_as_json_each_message_is_one_object_on_one_line_with_its_traceback(
    log: logging.Logger, written: io.StringIO
) -> None:
    log.handlers[0].setFormatter(JsonFormatter())
    log.warning("denied %s", FORGED)
    try:
        raise ValueError(FORGED)
    except ValueError:
        log.exception("it failed")
    first, second = written.getvalue().removesuffix("\n").split("\n")
    assert first.isprintable()
    event = json.loads(first)
    assert event.pop("time").endswith("Z")
    assert event == {"level": "WARNING", "logger": "test", "message": f"denied {FORGED}"}
    assert "ValueError" in json.loads(second)["exception"]


def test_of_several_brokers_each_line_says_which(log: logging.Logger, written: io.StringIO) -> None:
    log.handlers[0].setFormatter(EscapingFormatter(7))
    log.warning("denied")
    log.handlers[0].setFormatter(JsonFormatter(7))
    log.warning("denied")
    text, line = written.getvalue().splitlines()
    assert text.endswith("WARNING broker 7: denied")
    assert json.loads(line)["broker"] == 7


@pytest.mark.parametrize(
    ("name", "number"),
    [("TRACE", 5), ("debug", 10), ("INFO", 20), ("WARN", 30), ("warning", 30), ("ERROR", 40), ("FATAL", 50), ("", 30)],
)
def test_the_level_is_named_as_in_kafka_or_in_python(name: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    levels: list[object] = []
    monkeypatch.setattr(logging, "basicConfig", lambda **options: levels.append(options["level"]))
    configure({"PENSTOCK_LOG": name})
    assert levels == [number]


def test_a_level_that_there_is_not_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="PENSTOCK_LOG is 'loud'; the levels of the log are TRACE, DEBUG, INFO, WARN"):
        configure({"PENSTOCK_LOG": "loud"})
