"""Topics at the target: created as they are at the source, and brought to the same first offset."""

from __future__ import annotations

import pytest

from penstock.client import Admin, OffsetSpec, Producer, TopicPartition
from penstock.client.admin import ResourceType
from penstock.mirror import copying
from penstock.mirror import source as source_module
from penstock.mirror.source import read
from penstock.testing.broker import Broker
from penstock.wire.errors import ErrorCode
from tests.mirror.conftest import caught_up, mirroring, until
from tests.mirror.test_source import produce

TP = TopicPartition("t", 0)


async def bounds(admin: Admin) -> tuple[int, int]:
    return tuple(
        [(await admin.list_offsets({TP: spec}))[TP].offset for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)]
    )  # type: ignore[return-value]


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
async def test_a_log_that_begins_above_0_begins_there_at_the_target(
    source: Broker, target: Broker, from_: Admin, to: Admin, policy: str
) -> None:
    await from_.create_topic("t", 1, configs={"cleanup.policy": policy, "max.message.bytes": "5000"})
    async with Producer(bootstrap_servers=source.bootstrap_servers, batch_size=4000) as producer:
        for number in range(120_000 if policy == "delete" else 2_000):
            await producer.send("t", b"", key=b"%d" % number, partition=0)
    _, end = await bounds(from_)
    await from_.delete_records({TP: end - 10})
    async with mirroring(source, target) as mirror:
        await caught_up(mirror, t=end)
        assert await bounds(to) == await bounds(from_) == (end - 10, end)
        assert await read(to, TP, end - 10, end) == await read(from_, TP, end - 10, end)
        assert mirror.parts.notes[TP].filling_to == -1


async def test_a_start_that_was_interrupted_goes_on(source: Broker, target: Broker, from_: Admin, to: Admin) -> None:
    source.create_topic("t")
    await produce(source, 500)
    await from_.delete_records({TP: 400})
    target.fail("DeleteRecords", ErrorCode.POLICY_VIOLATION, times=None)
    async with mirroring(source, target) as mirror:
        await until(lambda: mirror.status().problems)
    assert await bounds(to) == (0, 400)
    target.heal()
    async with mirroring(source, target) as mirror:
        await caught_up(mirror, t=500)
        assert await bounds(to) == (400, 500)


async def test_partitions_and_topics_that_are_added_are_mirrored(
    source: Broker, target: Broker, from_: Admin, to: Admin
) -> None:
    await from_.create_topic("t", 1, configs={"retention.ms": "1000000"})
    async with mirroring(source, target) as mirror:
        await caught_up(mirror, t=0)
        await from_.create_partitions({"t": 3})
        await from_.create_topic("u", 2)
        await from_.alter_configs(ResourceType.TOPIC, "t", {"retention.ms": "2000000"})
        await until(lambda: mirror.status().partitions == 5 and mirror.status().is_ready)
        assert [len((await to.describe_topic(name)).partitions) for name in ("t", "u")] == [3, 2]
        while (await to.describe_configs(ResourceType.TOPIC, "t"))["retention.ms"].value != "2000000":
            pass


async def test_a_target_with_more_partitions_is_refused(source: Broker, target: Broker) -> None:
    source.create_topic("t", 1)
    target.create_topic("t", 2)
    async with mirroring(source, target) as mirror:
        await until(lambda: mirror.status().problems)
        assert "has 2 partitions at the target, and 1 at the source" in mirror.status().problems[0]


async def test_a_topic_that_was_created_again_while_no_mirror_ran_is_noticed(
    source: Broker, target: Broker, from_: Admin
) -> None:
    source.create_topic("t")
    await produce(source, 10)
    async with mirroring(source, target) as mirror:
        await caught_up(mirror, t=10)
        await mirror.note_progress()
    await from_.delete_topic("t")
    source.create_topic("t")
    await produce(source, 10)
    async with mirroring(source, target) as mirror:
        await until(lambda: mirror.status().problems)
        assert "deleted and created again at the source" in mirror.status().problems[0]


async def test_deleting_it_at_the_target_makes_the_new_one_be_copied(
    source: Broker, target: Broker, from_: Admin, to: Admin
) -> None:
    source.create_topic("t")
    await produce(source, 10)
    async with mirroring(source, target) as mirror:
        await caught_up(mirror, t=10)
        await from_.delete_topic("t")
        await until(lambda: mirror.status().problems)
        assert "deleted at the source; the target keeps its copy" in mirror.status().problems[0]
    source.create_topic("t")
    await produce(source, 7)
    await to.delete_topic("t")
    async with mirroring(source, target) as mirror:
        await caught_up(mirror, t=7)


@pytest.mark.parametrize("gone", [5, 40])
async def test_records_that_the_source_deleted_before_they_were_copied_are_missing_on_both_sides(
    source: Broker, target: Broker, from_: Admin, to: Admin, gone: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "MOVES_START", 10)
    source.create_topic("t")
    await produce(source, 100)
    async with mirroring(source, target) as mirror:
        await caught_up(mirror, t=100)
    await produce(source, 100, 100)
    await from_.delete_records({TP: 100 + gone})
    async with mirroring(source, target) as mirror:
        await caught_up(mirror, t=200)
        assert mirror.status().notes == [f"the source deleted {gone} offsets of t-0 before they were copied"]
        assert await read(to, TP, 100 + gone, 200) == await read(from_, TP, 100 + gone, 200)
        assert gone > 10 or await read(to, TP, 100, 100 + gone) == []
        assert (await bounds(to))[0] == (0 if gone < 10 else 100 + gone)


async def test_a_first_gap_of_compaction_becomes_the_log_start(
    source: Broker, target: Broker, from_: Admin, to: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "_GAP_TO_FILL", 100)
    compacting = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "internal.segment.bytes": "2000"}
    await from_.create_topic("t", 1, configs=compacting)
    async with Producer(bootstrap_servers=source.bootstrap_servers, batch_size=500) as producer:
        for number in range(1000):
            await producer.send("t", b"%d" % number, key=b"%d" % (number % 3), partition=0)
        await producer.flush()
        for number in range(200):
            await producer.send("t", b"%d" % number, key=b"other %d" % number, partition=0)

    async def first() -> int:
        records = await read(from_, TP, 0, 1200)
        return records[0].offset

    while await first() < 500:
        pass
    async with mirroring(source, target) as mirror:
        await caught_up(mirror, t=1200)
        theirs = {record.offset: record for record in await read(from_, TP, 0, 1200)}
        begin, _ = await bounds(to)
        assert begin >= 500
        ours = {record.offset: record for record in await read(to, TP, begin, 1200)}
        assert ours.keys() >= theirs.keys()
        assert all(ours[offset] == record for offset, record in theirs.items())
