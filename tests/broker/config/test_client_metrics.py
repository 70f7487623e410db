"""Configs of client metrics subscriptions."""

from __future__ import annotations

import pytest

from penstock.broker.config import ConfigError
from penstock.broker.config.client_metrics import check_client_metrics, client_metrics_entries
from penstock.wire.errors import InvalidConfig, InvalidRequest


def test_a_good_subscription_passes() -> None:
    check_client_metrics(
        {"interval.ms": "100", "metrics": "*", "match": "client_software_name=Java, client_software_version=11\\.1.*"}
    )


@pytest.mark.parametrize(
    ("configs", "error", "message"),
    [
        ({"nope": "1"}, InvalidRequest, "Unknown client metrics configuration: nope"),
        (
            {"interval.ms": "50"},
            InvalidRequest,
            "Invalid value 50 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        ({"interval.ms": "x"}, ConfigError, "Invalid value x for configuration interval.ms: Not a number of type INT"),
        ({"match": "x"}, InvalidConfig, "Illegal client matching pattern: x"),
        ({"match": "planet=Earth"}, InvalidConfig, "Illegal client matching pattern: planet=Earth"),
        ({"match": "client_id=["}, InvalidConfig, "Illegal client matching pattern: client_id=["),
    ],
)
def test_a_bad_one_is_refused_in_kafkas_words(configs: dict[str, str], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        check_client_metrics(configs)
    assert str(raised.value) == message


def test_entries_show_what_was_set_and_the_defaults() -> None:
    entries = {entry.name: entry for entry in client_metrics_entries({"interval.ms": "500"})}
    assert (entries["interval.ms"].value, entries["interval.ms"].source) == ("500", 7)
    assert (entries["match"].value, entries["match"].source) == ("", 5)
    assert [entry.name for entry in client_metrics_entries({}, ["match"])] == ["match"]
