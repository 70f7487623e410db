"""The versions that the client minds are those at which Kafka's schemas change."""

from __future__ import annotations

import pytest

from penstock.client import versions
from penstock.wire import messages as m
from penstock.wire.schema import Field


def field(message: type[m.Message], *path: str) -> Field:
    """A field by its name, and by the names of what it is nested in."""
    fields = message.SCHEMA.fields
    for name in path:
        (found,) = [each for each in fields if each.name == name]
        fields = found.struct.fields if found.struct is not None else []
    return found


@pytest.mark.parametrize(
    ("last", "message", "path"),
    [
        (versions.FETCH_LAST_NAMED, m.FetchRequest, ("topics", "topic")),
        (versions.PRODUCE_LAST_NAMED, m.ProduceRequest, ("topic_data", "name")),
        (versions.OFFSETS_LAST_NAMED, m.OffsetCommitRequest, ("topics", "name")),
        (versions.OFFSETS_LAST_NAMED, m.OffsetFetchRequest, ("groups", "topics", "name")),
        (versions.ADD_PARTITIONS_LAST_FOR_CLIENTS, m.AddPartitionsToTxnRequest, ("v3_and_below_transactional_id",)),
    ],
)
def test_the_last_version_with_a_field(last: int, message: type[m.Message], path: tuple[str, ...]) -> None:
    assert field(message, *path).versions.high == last


@pytest.mark.parametrize(
    ("first", "message", "path"),
    [
        (versions.FETCH_FIRST_WITH_SESSIONS, m.FetchRequest, ("session_id",)),
        (
            versions.CONSUMER_HEARTBEAT_FIRST_WITH_PATTERN,
            m.ConsumerGroupHeartbeatRequest,
            ("subscribed_topic_regex",),
        ),
        (versions.END_TXN_LAST_OF_OLD_TRANSACTIONS + 1, m.EndTxnResponse, ("producer_epoch",)),
        (versions.INIT_PRODUCER_ID_LAST_KNOWN + 1, m.InitProducerIdRequest, ("enable2_pc",)),
    ],
)
def test_the_first_version_with_a_field(first: int, message: type[m.Message], path: tuple[str, ...]) -> None:
    assert field(message, *path).versions.low == first
