from __future__ import annotations

import asyncio

import pytest

from penstock.client.accumulator import Batch, Delivery, PartitionQueue
from penstock.client.types import RecordMetadata, TopicPartition
from penstock.records.batch import parse_header

TP = TopicPartition("t", 0)


def _batch(count: int) -> Batch:
    batch = Batch(TP, 0.0, asyncio.get_running_loop().create_future())
    batch.records = [(1000, None, b"v", []) for _ in range(count)]
    return batch


def _two_sent(queue: PartitionQueue, *more: Batch, counts: tuple[int, int] = (1, 1)) -> tuple[Batch, Batch]:
    """The first two batches of a queue, numbered and in flight; `more` wait behind them."""
    queue.closed.extend([*map(_batch, counts), *more])
    first, second = queue.take(), queue.take()
    queue.number(first, 7, 0)
    queue.number(second, 7, 0)
    return first, second


async def test_batches_are_numbered_when_first_sent_and_keep_their_number() -> None:
    first, second = _two_sent(PartitionQueue(TP), counts=(3, 2))
    assert (first.sequence, second.sequence) == (0, 3)
    header = parse_header(second.build(0, None, transactional=False))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 0, 3)


async def test_retries_go_in_order_of_sequence_after_everything_in_flight_was_answered() -> None:
    queue = PartitionQueue(TP)
    first, second = _two_sent(queue, _batch(1))
    queue.answered(second)
    queue.retry(second)
    assert not queue.is_sendable(5, sequenced=True, only_retries=False)
    queue.answered(first)
    queue.retry(first)
    assert queue.is_sendable(5, sequenced=True, only_retries=True)
    assert queue.take() is first


async def test_sequence_numbers_wrap_to_zero() -> None:
    queue = PartitionQueue(TP)
    queue.next_position = 2**31 - 1
    batch = _batch(2)
    queue.number(batch, 7, 0)
    assert batch.sequence == 2**31 - 1
    after = _batch(1)
    queue.number(after, 7, 0)
    assert after.sequence == 1
    assert queue.next_position == 2**31 + 2


async def test_a_refusal_is_about_a_batch_only_if_nothing_before_it_is_open() -> None:
    queue = PartitionQueue(TP)
    first, second = _two_sent(queue)
    assert queue.is_first(first)
    assert not queue.is_first(second)
    queue.answered(first)
    assert queue.is_first(second)


async def test_the_halves_of_a_split_batch_keep_its_numbers_and_its_deliveries() -> None:
    batch = _batch(5)
    batch.number(7, 0, 10)
    deliveries = [Delivery(batch, index, 1000) for index in range(5)]
    left, right = batch.split()
    assert (left.sequence, right.sequence) == (10, 12)
    right.succeed(100, -1)
    await asyncio.sleep(0)
    assert not deliveries[4].done()
    left.succeed(50, -1)
    assert [(await d).offset for d in deliveries] == [50, 51, 100, 101, 102]


async def test_one_half_that_fails_fails_its_records_only() -> None:
    batch = _batch(2)
    first, second = Delivery(batch, 0, 1000), Delivery(batch, 1, 1000)
    left, right = batch.split()
    left.succeed(5, -1)
    right.fail(ValueError("no"))
    assert (await first).offset == 5
    assert first.exception() is None
    with pytest.raises(ValueError, match="no"):
        await second
    assert isinstance(second.exception(), ValueError)


async def test_a_delivery_tells_where_its_record_is() -> None:
    batch = _batch(3)
    delivery = Delivery(batch, 2, 1000)
    heard: list[Delivery] = []
    delivery.add_done_callback(heard.append)
    batch.succeed(40, -1)
    assert await delivery == RecordMetadata("t", 0, 42, 1000)
    await asyncio.sleep(0)
    assert heard == [delivery]


async def test_cancelling_one_who_waits_leaves_the_others_alone() -> None:
    batch = _batch(2)
    first, second = Delivery(batch, 0, 1), Delivery(batch, 1, 1)
    waiting = asyncio.ensure_future(_wait(first))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    batch.succeed(0, -1)
    assert (await second).offset == 1


async def _wait(delivery: Delivery) -> None:
    await delivery


async def test_renumbering_makes_what_waits_start_at_zero() -> None:
    queue = PartitionQueue(TP)
    queue.closed.extend([_batch(1), _batch(1)])
    first = queue.take()
    queue.number(first, 7, 0)
    queue.answered(first)
    queue.retry(first)
    queue.renumber()
    assert queue.take() is first
    assert first.position == -1
    assert queue.next_position == 0
