"""Each record once and at its offset, whatever happens to the requests."""

from __future__ import annotations

import pytest

from penstock.client import Admin, Producer, TopicPartition
from penstock.mirror.failures import TopicStopped, Unsettled
from penstock.mirror.pieces import Piece
from penstock.mirror.source import read
from penstock.mirror.writer import Writer, log_end
from penstock.records.builder import build_batch
from penstock.testing.broker import Broker
from penstock.wire.errors import ErrorCode

TP = TopicPartition("t", 0)


def piece(first: int, count: int = 10) -> Piece:
    return Piece(first, count, build_batch([(n, None, b"%d" % n, ()) for n in range(first, first + count)]))


async def writer_of(to: Admin, producer_id: int = 4711) -> Writer:
    writer = Writer(to, TP, producer_id, 0)
    await writer.look()
    return writer


async def values(to: Admin) -> list[bytes | None]:
    return [record.value for record in await read(to, TP, 0, await log_end(to, TP))]


async def test_pieces_are_written_in_order_with_several_on_their_way(to: Admin) -> None:
    await to.create_topic("t", 1)
    writer = await writer_of(to)
    for first in range(0, 200, 10):
        await writer.send(piece(first))
    await writer.flush()
    assert writer.end == writer.planned == 200
    assert await values(to) == [b"%d" % n for n in range(200)]


async def test_what_an_earlier_mirror_sent_late_is_not_written_twice(to: Admin) -> None:
    await to.create_topic("t", 1)
    killed, next_one = await writer_of(to), await writer_of(to)
    await killed.send(piece(0))
    await killed.flush()  # lands after the next mirror has looked
    await next_one.send(piece(0))
    await next_one.flush()
    assert next_one.end == 10
    assert await values(to) == [b"%d" % n for n in range(10)]


async def test_a_piece_that_does_not_fit_what_landed_meanwhile_is_refused(to: Admin) -> None:
    await to.create_topic("t", 1)
    first = await writer_of(to)
    await first.send(piece(0))
    await first.flush()
    killed, next_one = await writer_of(to), await writer_of(to)
    await killed.send(piece(10, 5))
    await killed.flush()
    await next_one.send(piece(10, 8))
    with pytest.raises(Unsettled):
        await next_one.flush()
    await next_one.look()
    assert next_one.end == 15
    await next_one.send(piece(15, 3))
    await next_one.flush()
    assert await values(to) == [b"%d" % n for n in range(18)]


async def test_a_lost_answer_is_settled_by_looking(target: Broker, to: Admin) -> None:
    await to.create_topic("t", 1)
    writer = await writer_of(to)
    target.drop("Produce")
    await writer.send(piece(0))
    with pytest.raises(Unsettled):
        await writer.flush()
    await writer.look()
    assert writer.end in (0, 10)
    await writer.send(piece(writer.end))
    await writer.flush()
    assert await values(to) == [b"%d" % n for n in range(writer.end)]


async def test_somebody_elses_record_is_noticed(target: Broker, to: Admin) -> None:
    await to.create_topic("t", 1)
    writer = await writer_of(to)
    async with Producer(bootstrap_servers=target.bootstrap_servers) as producer:
        await producer.send_and_wait("t", b"foreign")
    await writer.send(piece(0))
    with pytest.raises(Unsettled, match="took at offset 1 what belongs at 0"):
        await writer.flush()


async def test_what_the_target_refuses_for_good_stops_the_topic(target: Broker, to: Admin) -> None:
    await to.create_topic("t", 1, configs={"max.message.bytes": "100"})
    writer = await writer_of(to)
    await writer.send(piece(0))
    with pytest.raises(TopicStopped, match=r"message\.max\.bytes"):
        await writer.flush()
    target.fail("Produce", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    await writer.look()
    await writer.send(piece(0, 1))
    with pytest.raises(TopicStopped, match="offset 0 of t-0"):
        await writer.flush()


async def test_sequence_numbers_go_on_where_the_partition_stands(to: Admin) -> None:
    await to.create_topic("t", 1)
    for first in (0, 10, 20):
        writer = await writer_of(to)
        assert writer.end == first
        await writer.send(piece(first))
        await writer.flush()
    state = (await to.describe_producers([TP]))[TP][0]
    assert (state.producer_id, state.producer_epoch, state.last_sequence) == (4711, 0, 29)
