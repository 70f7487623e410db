from __future__ import annotations

import dataclasses
import typing

import pytest

from penstock.client import config as c
from penstock.client.errors import UsageError


def test_python_names_and_kafkas_dotted_names_mean_the_same() -> None:
    by_name = c.load(c.ProducerConfig, None, {"linger_ms": 3, "bootstrap_servers": ["a:1", "b:2"]})
    dotted = c.load(c.ProducerConfig, {"linger.ms": "3", "bootstrap.servers": "a:1,b:2"}, {})
    assert by_name == dotted


def test_a_keyword_argument_wins_over_the_mapping() -> None:
    assert c.load(c.ProducerConfig, {"batch.size": 1}, {"batch_size": 2}).batch_size == 2


@pytest.mark.parametrize(
    ("name", "suggestion"), [("linger.msec", "linger.ms"), ("bootstrap_server", "bootstrap_servers"), ("ack", "acks")]
)
def test_an_unknown_setting_is_refused_with_the_nearest_one(name: str, suggestion: str) -> None:
    with pytest.raises(UsageError, match=suggestion):
        c.load(c.ProducerConfig, {name: "1"}, {})


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("linger_ms", "soon", "a number"),
        ("batch_size", 1.5, "a whole number"),
        ("enable_idempotence", "maybe", "true or false"),
        ("compression_type", "rar", "none, gzip, snappy, lz4, zstd"),
        ("acks", "2", "all"),
    ],
)
def test_a_malformed_value_is_refused_with_what_would_do(name: str, value: object, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        c.load(c.ProducerConfig, None, {name: value})


def test_acks_may_be_minus_one_as_in_kafka() -> None:
    assert c.load(c.ProducerConfig, None, {"acks": -1}).acks == "all"


@pytest.mark.parametrize(
    ("config", "settings"),
    [
        (c.ClientConfig, c.ClientSettings),
        (c.AdminConfig, c.AdminSettings),
        (c.ProducerConfig, c.ProducerSettings),
        (c.ConsumerConfig, c.ConsumerSettings),
        (c.ShareConsumerConfig, c.ShareConsumerSettings),
    ],
)
def test_the_typed_keyword_arguments_are_exactly_the_settings(
    config: type[c.ClientConfig], settings: type[object]
) -> None:
    assert set(typing.get_type_hints(settings)) == {field.name for field in dataclasses.fields(config)}


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("broker", [("broker", 9092)]),
        ("a:1, b:2", [("a", 1), ("b", 2)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("PLAINTEXT://h:5", [("h", 5)]),
    ],
)
def test_addresses_are_read(text: str, addresses: list[tuple[str, int]]) -> None:
    assert c.parse_addresses(text) == addresses


@pytest.mark.parametrize("text", ["", ",", "host:port", "host:70000", ":9092"])
def test_addresses_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="host:port"):
        c.parse_addresses(text)
