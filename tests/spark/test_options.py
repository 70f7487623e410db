"""The options of the source, as users of Spark's own Kafka source write them."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.client.errors import UsageError
from penstock.client.types import IsolationLevel, TopicPartition
from penstock.spark.options import SourceOptions, parse_options

BROKER = {"kafka.bootstrap.servers": "localhost:9092"}


def parsed(streaming: bool = False, **options: Any) -> SourceOptions:
    return parse_options({**BROKER, **options}, streaming=streaming)


def test_a_batch_query_reads_from_the_earliest_to_the_latest() -> None:
    options = parsed(subscribe="b, a")
    assert options.subscription.topics == ("a", "b")
    assert (options.starting.kind, options.ending.kind) == ("earliest", "latest")


def test_a_streaming_query_starts_at_the_latest() -> None:
    assert parsed(streaming=True, subscribe="a").starting.kind == "latest"


def test_names_of_options_have_no_case() -> None:
    options = parse_options({"KAFKA.Bootstrap.Servers": "b:1", "SUBSCRIBE": "a", "maxrecordsperpartition": "7"})
    assert options.max_records_per_partition == 7


def test_offsets_are_given_per_partition() -> None:
    options = parsed(subscribe="a", startingOffsets='{"a": {"0": 23, "1": -2}}', endingOffsets='{"a":{"0":50,"1":-1}}')
    assert options.starting.offsets == {TopicPartition("a", 0): 23, TopicPartition("a", 1): -2}


def test_a_timestamp_wins_over_offsets() -> None:
    options = parsed(subscribe="a", startingTimestamp="1000", startingOffsets="earliest")
    assert (options.starting.kind, options.starting.timestamp_ms) == ("timestamp", 1000)


def test_columns_and_headers_make_the_schema() -> None:
    assert parsed(subscribe="a").schema.startswith("key BINARY, value BINARY, topic STRING, partition INT")
    assert "headers ARRAY" in parsed(subscribe="a", includeHeaders="true").schema
    assert parsed(subscribe="a", columns="value,timestamptype").schema == "value BINARY, timestampType INT"


def test_isolation_and_group_come_from_the_clients_settings() -> None:
    options = parse_options(
        {**BROKER, "subscribe": "a", "kafka.isolation.level": "read_committed", "kafka.group.id": "lake"}
    )
    assert options.isolation is IsolationLevel.READ_COMMITTED
    assert options.group_id == "lake"


def test_without_a_group_one_is_named_after_what_is_read() -> None:
    assert parsed(subscribe="a,b").group_id == "spark-kafka-source-a-b"
    assert parsed(subscribePattern="ord.*", groupIdPrefix="lake").group_id == "lake-ord."
    assert parsed(subscribe="a", commitOffsets="false").group_id == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "exactly one of subscribe"),
        ({"subscribe": "a", "subscribePattern": "b"}, "exactly one of subscribe"),
        ({"subscribe": "a", "startingOfsets": "earliest"}, "did you mean startingOffsets"),
        ({"subscribe": "a", "startingOffsets": "latest"}, "nothing to read"),
        ({"subscribe": "a", "endingOffsets": "earliest"}, "nothing to read"),
        ({"subscribe": "a", "startingOffsets": "soon"}, "must be earliest, latest or like"),
        ({"subscribePattern": "("}, "not a regular expression"),
        ({"assign": "a"}, "must look like"),
        ({"subscribe": "a", "minPartitions": "0"}, "above 0"),
        ({"subscribe": "a", "failOnDataLoss": "maybe"}, "true or false"),
        ({"subscribe": "a", "columns": "key,colour"}, "no column 'colour'"),
        ({"subscribe": "a", "kafka.isolation.level": "dirty"}, "read_committed"),
        ({"subscribe": "a", "kafka.security.protocol": "SASL_SSL"}, "sasl_mechanism is missing"),
        ({"subscribe": "a", "kafka.security.protocol": "TLS"}, "plaintext, ssl, sasl_plaintext, sasl_ssl"),
        ({"subscribe": "a", "kafka.ssl.trust.location": "x"}, "no setting 'ssl.trust.location'"),
        ({"subscribe": "a", "share.group": "g"}, "readStream"),
    ],
)
def test_what_cannot_work_is_refused_with_advice(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parsed(**options)


def test_a_streaming_query_has_no_end() -> None:
    with pytest.raises(UsageError, match="no meaning in a streaming query"):
        parsed(streaming=True, subscribe="a", endingOffsets="latest")


def test_the_broker_must_be_named() -> None:
    with pytest.raises(UsageError, match=r"kafka\.bootstrap\.servers is missing"):
        parse_options({"subscribe": "a"})
