"""One mirror may write at a time, and what it does in a transaction is done once."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client import Admin, OffsetAndMetadata, TopicPartition
from penstock.mirror.failures import TakenOver, Unsettled
from penstock.mirror.lease import Lease
from penstock.mirror.writer import log_end
from penstock.testing.broker import Broker
from penstock.wire.errors import ErrorCode

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


async def taken(to: Admin) -> Lease:
    lease = Lease(to.cluster, "penstock-mirror-x")
    await lease.take()
    return lease


async def test_a_marker_takes_one_offset_that_nobody_sees(to: Admin) -> None:
    await to.create_topic("t", 2)
    lease = await taken(to)
    await asyncio.gather(*(lease.mark(tp, lease.generation) for tp in (TP, OTHER)))
    assert [await log_end(to, tp) for tp in (TP, OTHER)] == [1, 1]
    await lease.mark(TP, lease.generation)
    assert await log_end(to, TP) == 2
    await lease.close()


async def test_the_next_mirror_fences_this_one(to: Admin) -> None:
    await to.create_topic("t", 1)
    first = await taken(to)
    await first.mark(TP, first.generation)
    second = await taken(to)
    with pytest.raises(TakenOver, match="Run only one"):
        await first.commit({"g": {TP: OffsetAndMetadata(1)}})
    with pytest.raises(TakenOver):
        await first.renew()
    await second.mark(TP, second.generation)
    assert await log_end(to, TP) == 2
    assert await to.list_group_offsets("g") == {}


async def test_offsets_of_several_groups_are_committed_together(to: Admin) -> None:
    await to.create_topic("t", 2)
    lease = await taken(to)
    await lease.commit({"g": {TP: OffsetAndMetadata(3, "seen")}, "h": {OTHER: OffsetAndMetadata(4)}})
    assert (await to.list_group_offsets("g"))[TP][:2] == (3, "seen")
    assert (await to.list_group_offsets("h"))[OTHER].offset == 4


async def test_after_an_error_the_lease_is_still_held_and_the_caller_is_told_to_look(target: Broker, to: Admin) -> None:
    await to.create_topic("t", 1)
    lease = await taken(to)
    target.fail("EndTxn", ErrorCode.PRODUCER_FENCED)  # as after a transaction that timed out
    with pytest.raises(Unsettled):
        await lease.mark(TP, lease.generation)
    assert await log_end(to, TP) == 1, "the transaction was ended all the same, and its marker is the one asked for"
    await lease.mark(TP, lease.generation)
    assert await log_end(to, TP) == 2


async def test_a_lost_answer_and_a_coordinator_that_was_started_again_do_not_look_like_another_mirror(
    target: Broker, to: Admin
) -> None:
    await to.create_topic("t", 1)
    lease = await taken(to)
    before = lease.generation
    await lease.renew()
    lease.epoch -= 1  # as if the answer that told this epoch had been lost
    target.restart()
    with pytest.raises(Unsettled):
        await lease.mark(TP, before)
    assert lease.generation == before + 1
    with pytest.raises(Unsettled, match="renewed"):
        await lease.mark(TP, before)
    await lease.mark(TP, lease.generation)
    assert await log_end(to, TP) == 1
