"""Types, bounds and words of Kafka's configs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.config import BROKER, GROUP, TOPIC, ConfigError, ConfigType
from penstock.broker.config.definitions import Scope, Value, format_value, read_table

ALL = [*BROKER.values(), *TOPIC.values(), *GROUP.values()]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("retention.ms", " 12 ", 12),
        ("retention.ms", "+12", 12),
        ("retention.ms", "-1", -1),
        ("retention.ms", str(2**63 - 1), 2**63 - 1),
        ("preallocate", "TRUE", True),
        ("preallocate", "false", False),
        ("min.cleanable.dirty.ratio", "1e-1", 0.1),
        ("min.cleanable.dirty.ratio", ".5f", 0.5),
        ("cleanup.policy", "compact , delete", "compact,delete"),
        ("cleanup.policy", "", ""),
        ("compression.type", "zstd", "zstd"),
        ("compression.gzip.level", "-1", -1),
        ("leader.replication.throttled.replicas", "*", "*"),
        ("leader.replication.throttled.replicas", "0:1,1:2", "0:1,1:2"),
    ],
)
def test_values_are_read_as_java_reads_them(name: str, text: str, value: Value) -> None:
    parsed = TOPIC[name].parse(text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("retention.ms", "-5", "Value must be at least -1"),
        ("retention.ms", "abc", "Not a number of type LONG"),
        ("retention.ms", "", "Not a number of type LONG"),
        ("retention.ms", "1_000", "Not a number of type LONG"),
        ("retention.ms", "٣", "Not a number of type LONG"),
        ("retention.ms", "99999999999999999999", "Not a number of type LONG"),
        ("segment.bytes", "100", "Value must be at least 1048576"),
        ("segment.bytes", "1e7", "Not a number of type INT"),
        ("segment.bytes", "2147483648", "Not a number of type INT"),
        ("preallocate", "maybe", "Expected value to be either true or false"),
        ("cleanup.policy", "burn", "String must be one of: compact, delete"),
        (
            "compression.type",
            "brotli",
            "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("compression.lz4.level", "99", "Value must be no more than 17"),
        ("min.cleanable.dirty.ratio", "1.5", "Value must be no more than 1"),
        ("min.cleanable.dirty.ratio", "x", "Not a number of type DOUBLE"),
        ("message.timestamp.type", "Never", "String must be one of: CreateTime, LogAppendTime"),
    ],
)
def test_what_is_refused_is_refused_in_kafkas_words(name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        TOPIC[name].parse(text)
    assert str(raised.value) == f"Invalid value {text} for configuration {name}: {message}"


@pytest.mark.parametrize("text", ["earliest", "latest", "by_duration:PT1H", "by_duration:P1DT2H3M4.5S"])
def test_a_share_group_may_begin_anywhere_in_time(text: str) -> None:
    assert GROUP["share.auto.offset.reset"].parse(text) == text


@pytest.mark.parametrize("text", ["never", "by_duration:x", "by_duration:P", "by_duration:-PT1H", "by_duration:"])
def test_but_not_nowhere(text: str) -> None:
    with pytest.raises(ConfigError, match="The value must be either 'earliest', 'latest' or of the format"):
        GROUP["share.auto.offset.reset"].parse(text)


def test_choices_in_any_case_are_taken_in_any_case() -> None:
    assert BROKER["group.consumer.migration.policy"].parse("Upgrade") == "Upgrade"
    with pytest.raises(ConfigError, match=r"one of \(case insensitive\): DISABLED"):
        BROKER["group.consumer.migration.policy"].parse("sideways")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "must not be empty"),
        ("consumer", "Disabling the 'classic' protocol is not supported"),
        ("classic,foo", "String must be one of: consumer, classic, share, streams"),
    ],
)
def test_the_classic_protocol_cannot_be_left_out(text: str, reason: str) -> None:
    name = "group.coordinator.rebalance.protocols"
    assert BROKER[name].parse("share, classic") == "share,classic"
    with pytest.raises(ConfigError, match=reason):
        BROKER[name].parse(text)


def test_a_malformed_list_of_throttled_replicas_is_refused() -> None:
    with pytest.raises(ConfigError, match="must be the literal '\\*' or a list of replicas"):
        TOPIC["leader.replication.throttled.replicas"].parse("bad")


@pytest.mark.parametrize("definition", ALL, ids=lambda definition: definition.name)
def test_every_default_is_valid_and_prints_as_itself(definition) -> None:  # type: ignore[no-untyped-def]
    assert format_value(definition.default_value()) == definition.default


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_print_so_that_java_reads_them(value: float) -> None:
    printed = format_value(value)
    assert printed is not None
    assert float(printed) == value


def test_only_passwords_and_what_kafka_does_not_know_are_sensitive() -> None:
    assert {each.type for each in ALL if each.is_sensitive} == {ConfigType.PASSWORD, ConfigType.UNKNOWN}


def test_a_table_is_read_line_by_line() -> None:
    first, second = read_table("""
a.b int =5 1..9 @cluster
    What it does.
c.d list internal
""")
    assert (first.name, first.default, first.scope, first.documentation) == ("a.b", "5", Scope.CLUSTER, "What it does.")
    assert first.is_used
    assert (second.type, second.default, second.is_internal, second.is_used) == (ConfigType.LIST, None, True, False)
