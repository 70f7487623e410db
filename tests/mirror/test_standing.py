"""How far a mirror is, without one that runs."""

from __future__ import annotations

from penstock.client import Admin
from penstock.mirror.standing import standing
from penstock.testing.broker import Broker
from penstock.wire.errors import UnstableOffsetCommit
from tests.mirror.conftest import caught_up, mirroring, sides
from tests.mirror.test_source import produce


async def test_the_lag_of_each_topic_is_told(source: Broker, target: Broker, from_: Admin) -> None:
    for name in ("t", "u"):
        source.create_topic(name)
    assert await standing(*sides(source, target)) == []
    async with mirroring(source, target) as mirror:
        await produce(source, 10)
        await caught_up(mirror, t=10, u=0)
    await produce(source, 5, 10)
    try:
        found = await standing(*sides(source, target))
    except UnstableOffsetCommit:  # it was stopped in the middle of a note, whose transaction has to time out
        found = await standing(*sides(source, target))
    assert [(row.topic, row.partitions, row.source_end, row.target_end, row.lag) for row in found] == [
        ("t", 1, 15, 10, 5),
        ("u", 1, 0, 0, 0),
    ]
    await from_.delete_topic("u")
    assert [row.topic for row in await standing(*sides(source, target))] == ["t"]
