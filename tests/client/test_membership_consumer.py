"""Members of the consumer protocol (KIP-848) that leave the matching of topic names to the broker."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import pytest

from penstock.client import Admin, Consumer, Producer, SubscriptionPattern
from penstock.client.errors import UsageError
from penstock.wire.api import ApiKey
from penstock.wire.errors import InvalidRegularExpression, UnsupportedVersion
from tests.client.old_brokers import limited


async def until(consumer: Consumer[bytes, bytes], done: Callable[[], bool]) -> list[bytes | None]:
    """Poll until `done`; returns what was read."""
    values: list[bytes | None] = []
    async with asyncio.timeout(30):
        while not done():
            values += [record.value for record in await consumer.poll(100)]
    return values


def member(bootstrap: str, group: str) -> Consumer[bytes, bytes]:
    return Consumer(
        bootstrap_servers=bootstrap, group_id=group, group_protocol="consumer", auto_offset_reset="earliest"
    )


async def test_the_broker_matches_a_pattern_against_topics_as_they_come(
    bootstrap: str, admin: Admin, producer: Producer, fresh: Callable[[str], str]
) -> None:
    word = fresh("orders")
    await admin.create_topic(f"{word}-a", 1)
    await admin.create_topic(f"not-{word}-b", 1)
    async with member(bootstrap, fresh("group")) as consumer:
        consumer.subscribe(SubscriptionPattern(f"{word}-[a-c]"))
        await until(consumer, lambda: [tp.topic for tp in consumer.assignment()] == [f"{word}-a"])
        assert consumer.subscription() == set()
        assert f"not-{word}-b" not in consumer._cluster.metadata.topics
        await admin.create_topic(f"{word}-c", 2)
        await admin.create_topic(f"{word}-cc", 1)
        await until(consumer, lambda: len(consumer.assignment()) == 3)
        await producer.send_and_wait(f"{word}-c", b"found", partition=1)
        found: list[bytes | None] = []
        async with asyncio.timeout(30):
            while not found:
                found = [record.value for record in await consumer.poll(500)]
        assert found == [b"found"]


async def test_a_subscription_goes_from_a_pattern_to_names_and_back(
    bootstrap: str, admin: Admin, fresh: Callable[[str], str]
) -> None:
    word = fresh("turn")
    for letter in "ab":
        await admin.create_topic(f"{word}-{letter}", 1)
    async with member(bootstrap, fresh("group")) as consumer:

        def topics() -> set[str]:
            return {tp.topic for tp in consumer.assignment()}

        consumer.subscribe(SubscriptionPattern(f"{word}-a"))
        await until(consumer, lambda: topics() == {f"{word}-a"})
        consumer.subscribe([f"{word}-b"])
        await until(consumer, lambda: topics() == {f"{word}-b"})
        consumer.subscribe(SubscriptionPattern(f"{word}-."))
        await until(consumer, lambda: topics() == {f"{word}-a", f"{word}-b"})
        consumer.subscribe(re.compile(f"{word}-[b]"))
        await until(consumer, lambda: topics() == {f"{word}-b"})


async def test_a_pattern_that_is_not_re2_is_refused(bootstrap: str, fresh: Callable[[str], str]) -> None:
    async with member(bootstrap, fresh("group")) as consumer:
        consumer.subscribe(SubscriptionPattern("(?=ahead)"))
        with pytest.raises(InvalidRegularExpression):
            await until(consumer, lambda: False)


async def test_the_classic_protocol_has_no_patterns_for_brokers(penstock_address: str) -> None:
    async with Consumer(bootstrap_servers=penstock_address, group_id="g") as consumer:
        with pytest.raises(UsageError, match="needs group_protocol='consumer'"):
            consumer.subscribe(SubscriptionPattern("a.*"))
    async with member(penstock_address, "g") as consumer:
        with pytest.raises(UsageError, match="empty"):
            consumer.subscribe(SubscriptionPattern(""))


async def test_a_broker_that_knows_no_patterns_yet_is_said_so(
    penstock_address: str, fresh: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(monkeypatch, ApiKey.CONSUMER_GROUP_HEARTBEAT, 0)
    async with member(penstock_address, fresh("group")) as consumer:
        consumer.subscribe(SubscriptionPattern("a.*"))
        with pytest.raises(UnsupportedVersion, match="subscribe to re"):
            await until(consumer, lambda: False)
