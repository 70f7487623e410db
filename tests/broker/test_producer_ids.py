from __future__ import annotations

from penstock.broker.producer_ids import ProducerIds


def test_ids_come_from_blocks_that_are_allocated_one_after_the_other_when_they_are_needed() -> None:
    blocks = [range(0, 2), range(10, 12)]
    ids = ProducerIds(lambda: blocks.pop(0))
    assert len(blocks) == 2
    assert [ids.next() for _ in range(2)] == [0, 1]
    assert len(blocks) == 1
    assert [ids.next() for _ in range(2)] == [10, 11]
