"""How old a record is, from what the broker noted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from penstock.broker.arrivals import Arrivals


class Rig:
    """One partition, and a clock that we turn."""

    def __init__(self, partitions: int = 1) -> None:
        self.now_s = 1000
        self.due: list[Any] = []
        topic = SimpleNamespace(
            topic_id=b"t", partition_count=partitions, find_hosted=lambda index: self.hosted.get(index)
        )
        self.partitions: list[Any] = [
            SimpleNamespace(topic=topic, index=index, log=SimpleNamespace(high_watermark=5))
            for index in range(partitions)
        ]
        self.hosted = dict(enumerate(self.partitions))
        cluster: Any = SimpleNamespace(topics=lambda: [topic], topic_by_id=lambda topic_id: topic)
        world: Any = SimpleNamespace(
            now_ms=lambda: self.now_s * 1000,
            call_later=lambda seconds, callback, *args: self.due.append((callback, args)),
            call_soon=lambda callback, *args: self.due.append((callback, args)),
        )
        self.arrivals = Arrivals(cluster, world)
        self.topic: Any = topic
        self.arrivals.start()

    def turn(self) -> None:
        callback, args = self.due.pop()
        callback(*args)

    def second(self, end: int) -> None:
        self.now_s += 1
        self.partitions[0].log.high_watermark = end
        self.turn()

    def age_s(self, offset: int) -> float:
        return self.arrivals.age_ms(self.partitions[0], offset) / 1000


def test_a_record_is_as_old_as_the_first_note_that_has_it() -> None:
    rig = Rig()
    rig.second(8)
    rig.second(8)
    rig.second(9)
    assert [rig.age_s(offset) for offset in (0, 4, 5, 7, 8)] == [3, 3, 2, 2, 0]


def test_a_record_that_nobody_has_noted_yet_is_new() -> None:
    rig = Rig()
    rig.now_s += 1
    assert rig.age_s(5) == 0


def test_the_notes_of_a_log_are_few_and_old_ages_stay_near_the_truth() -> None:
    rig = Rig()
    for second in range(1, 10_001):
        rig.second(5 + second)
    notes = rig.arrivals._notes[b"t", 0]
    assert len(notes.ends) <= 32
    for offset in (10, 1000, 5000, 9000):
        truth = 10_000 - (offset - 4)
        assert truth / 3 <= rig.age_s(offset) <= truth
    assert rig.age_s(10_004) == 0
    assert rig.age_s(10_000) == 4


def test_a_clock_that_goes_back_makes_no_negative_age() -> None:
    rig = Rig()
    rig.now_s -= 100
    assert rig.age_s(0) == 0


def test_many_partitions_are_looked_at_in_several_turns() -> None:
    rig = Rig(1200)
    assert rig.arrivals.age_ms(rig.partitions[1100], 0) == 0
    rig.turn()
    rig.now_s += 7
    assert rig.arrivals.age_ms(rig.partitions[1100], 0) == 7000


def test_the_oldest_record_of_many_partitions_is_that_of_the_one_furthest_back_in_time() -> None:
    rig = Rig(3)
    for second in range(1, 5):
        rig.partitions[second % 3].log.high_watermark += 1
        rig.second(rig.partitions[0].log.high_watermark)
    ends = [partition.log.high_watermark for partition in rig.partitions]
    for positions in ([5, 7, 6], [6, 5, 6], [6, 6, 6], [6, 7, 5], ends):
        singles = [
            rig.arrivals.age_ms(partition, position)
            for partition, position, end in zip(rig.partitions, positions, ends, strict=True)
            if position < end
        ]
        assert rig.arrivals.oldest_age_ms(rig.topic, 0, positions) == max(singles, default=0)


def test_a_partition_that_is_hosted_elsewhere_for_a_while_counts_anew() -> None:
    rig = Rig()
    rig.second(8)
    del rig.hosted[0]
    rig.second(8)
    assert rig.arrivals.oldest_age_ms(rig.topic, 0, [0]) == 0
    rig.hosted[0] = rig.partitions[0]
    rig.second(8)
    rig.now_s += 4
    assert rig.age_s(0) == 4


def test_a_deleted_topic_is_forgotten() -> None:
    rig = Rig()
    rig.arrivals.topic_deleted(rig.topic)
    assert rig.age_s(0) == 0
    assert rig.arrivals._notes == {}
