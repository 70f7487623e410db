"""`penstock config` against a broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.main import run
from penstock.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"auto.create.topics.enable": "false"}) as it:
        it.create_topic("orders", retention_ms=86_400_000)
        yield it


class Shell:
    def __init__(self, broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
        self._broker = broker
        self._capsys = capsys

    def __call__(self, *arguments: str, status: int = 0) -> tuple[str, str]:
        got = run(["config", *arguments, "--bootstrap", self._broker.bootstrap_servers])
        out, err = self._capsys.readouterr()
        assert got == status, err
        return out, err

    def json(self, *arguments: str) -> dict[str, dict[str, object]]:
        return {row["name"]: row for row in json.loads(self(*arguments, "--json")[0])}


@pytest.fixture
def config(broker: Broker, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(broker, capsys)


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_get_shows_what_is_set_where_and_instead_of_which_default(config: Shell) -> None:
    config("set", "topic", "orders", "cleanup.policy=compact")
    out, _ = config("get", "topic", "orders")
    assert words(out) == [
        ["CONFIG", "VALUE", "SOURCE", "DEFAULT"],
        ["cleanup.policy", "compact", "topic", "delete"],
        ["file.delete.delay.ms", "0", "static", "60000"],  # what the broker for tests starts with
        ["retention.ms", "86400000", "topic"],
    ]


def test_get_shows_defaults_where_they_are_wanted(config: Shell) -> None:
    everything = config.json("get", "group", "nobody", "--all")
    assert everything["share.auto.offset.reset"] == {
        "name": "share.auto.offset.reset",
        "value": "latest",
        "source": "default",
        "default": "latest",
        "read_only": False,
        "sensitive": False,
    }
    out, err = config("get", "group", "nobody")
    assert out == ""
    assert err == "Nothing is set for group nobody: all configs have their defaults. See them with --all.\n"
    assert list(config.json("get", "topic", "orders", "segment.bytes", "retention.ms")) == [
        "segment.bytes",
        "retention.ms",
    ]


def test_a_group_is_configured_before_it_exists(config: Shell) -> None:
    _, err = config("set", "group", "workers", "share.auto.offset.reset=earliest", "share.delivery.count.limit=9")
    assert err.splitlines() == [
        "share.auto.offset.reset of group workers is now earliest (was latest).",
        "share.delivery.count.limit of group workers is now 9 (was 5).",
    ]
    assert config.json("get", "group", "workers").keys() == {"share.auto.offset.reset", "share.delivery.count.limit"}
    _, err = config("unset", "group", "workers", "share.auto.offset.reset", "share.isolation.level")
    assert err.splitlines() == [
        "share.auto.offset.reset of group workers is back to latest (was earliest).",
        "share.isolation.level was not set for group workers.",
    ]
    assert config.json("get", "group", "workers").keys() == {"share.delivery.count.limit"}


def test_one_broker_or_all_of_them_are_configured(config: Shell) -> None:
    config("set", "broker", "all", "log.retention.ms=600000")
    assert config.json("set", "broker", "1", "log.retention.ms=700000")["log.retention.ms"]["new"] == "700000"
    entry = config.json("get", "broker", "1")["log.retention.ms"]
    assert (entry["value"], entry["source"], entry["default"]) == ("700000", "dynamic_broker", "600000")
    assert config.json("get", "broker", "all")["log.retention.ms"]["value"] == "600000"
    config("unset", "broker", "1", "log.retention.ms")
    assert config.json("unset", "broker", "all", "log.retention.ms")["log.retention.ms"]["old"] == "600000"
    assert config("get", "broker", "all")[1] == "Nothing is set for all brokers.\n"


def test_client_metrics_are_configured(config: Shell) -> None:
    config("set", "client-metrics", "latencies", "interval.ms=10000", "metrics=org.apache.kafka.producer.")
    assert config.json("get", "client-metrics", "latencies")["interval.ms"]["value"] == "10000"
    _, err = config("set", "client-metrics", "latencies", "interval.ms=1", status=1)
    assert "interval must be between 100 and 3600000" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("set", "topic", "orders", "retention.m=1"),
        ("unset", "topic", "orders", "retention.m"),
        ("get", "topic", "orders", "retention.m"),
    ],
)
def test_a_misspelt_config_is_answered_with_the_nearest_one(config: Shell, arguments: tuple[str, ...]) -> None:
    _, err = config(*arguments, status=1)
    assert err.splitlines() == [
        "Error: There is no topic config 'retention.m'.",
        "  Did you mean:       retention.ms",
        "  See all of them:    penstock config get topic orders --all",
    ]


def test_a_broker_accepts_any_name_and_the_command_says_that_it_is_not_known(config: Shell) -> None:
    _, err = config("set", "broker", "all", "log.retention.hurs=3")
    assert "lists no config 'log.retention.hurs'. Did you mean log.retention.hours?" in err
    config("unset", "broker", "all", "log.retention.hurs")
    assert config("get", "broker", "all")[0] == ""


def test_a_value_that_is_refused_is_answered_with_the_reason_and_nothing_is_set(config: Shell) -> None:
    _, err = config("set", "group", "careful", "share.delivery.count.limit=7", "share.auto.offset.reset=now", status=1)
    assert "The value must be either 'earliest', 'latest'" in err
    assert config("get", "group", "careful")[0] == ""


def test_what_only_a_start_can_change_is_said_to_be_so(config: Shell) -> None:
    _, err = config("set", "broker", "1", "num.partitions=3", status=1)
    assert err.splitlines() == [
        "Error: num.partitions cannot be changed while a broker runs.",
        "  Set it at start:    penstock serve -c num.partitions=3",
    ]


def test_a_topic_or_broker_that_is_not_there_is_answered_with_those_that_are(config: Shell) -> None:
    assert "Did you mean:       orders" in config("get", "topic", "order", status=1)[1]
    assert "There is no broker 7. The cluster's brokers: 1" in config("get", "broker", "7", status=1)[1]
    assert "A broker is named by its id, or all of them by 'all'" in config("get", "broker", "one", status=2)[1]


def test_a_change_without_a_value_is_a_usage_error(config: Shell) -> None:
    assert (
        "'retention.ms'; it must look like name=value" in config("set", "topic", "orders", "retention.ms", status=2)[1]
    )


def test_a_secret_comes_from_a_file_and_not_from_the_command_line(config: Shell, tmp_path: Path) -> None:
    name = "listener.name.outside.ssl.key.password"
    _, err = config("set", "broker", "1", f"{name}=hush", status=1)
    assert f"{name}=@FILE" in err
    (tmp_path / "secret").write_text("hush\n")
    out, err = config("set", "broker", "1", f"{name}=@{tmp_path / 'secret'}")
    assert "hush" not in out + err
    _, err = config("set", "broker", "1", f"{name}=@{tmp_path / 'nothing'}", status=1)
    assert "cannot be read" in err


def test_levels_of_a_brokers_loggers_are_changed_while_it_runs(config: Shell) -> None:
    assert config.json("get", "broker-logger", "1").keys() >= {"root", "penstock.audit", "penstock.cluster"}
    before = config.json("get", "broker-logger", "1", "penstock.requests")["penstock.requests"]["value"]
    _, err = config("set", "broker-logger", "1", "penstock.requests=ERROR")
    assert err == f"penstock.requests of broker 1 is now ERROR (was {before}).\n"
    assert config("get", "broker-logger", "1", "penstock.requests")[0].split()[-2:] == ["ERROR", "logger"]
    _, err = config("unset", "broker-logger", "1", "penstock.requests")
    assert err == "penstock.requests of broker 1 is back to its default (was ERROR).\n"
    assert config.json("get", "broker-logger", "1", "penstock.requests")["penstock.requests"]["value"] == before


def test_who_mistypes_a_logger_or_a_level_is_told_what_there_is(config: Shell) -> None:
    _, err = config("set", "broker-logger", "1", "penstock.request=DEBUG", status=1)
    assert err.splitlines() == [
        "Error: There is no broker logger 'penstock.request'.",
        "  Did you mean:       penstock.requests",
        "  See all of them:    penstock config get broker-logger 1 --all",
    ]
    assert "Valid log levels are TRACE" in config("set", "broker-logger", "1", "penstock=LOUD", status=1)[1]
    assert "named by its id, not 'all'" in config("get", "broker-logger", "all", status=2)[1]
    assert "There is no broker 7" in config("get", "broker-logger", "7", status=1)[1]
