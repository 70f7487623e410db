"""How old a record is, from what the broker noted."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from penstock.broker.arrivals import Arrivals, Notes


class Rig:
    """One partition, and a clock that we turn."""

    def __init__(self, partitions: int = 1) -> None:
        self.now_s = 1000
        self.due: list[Any] = []
        self.hosted: dict[int, Any] = {}
        topic = SimpleNamespace(
            topic_id=b"t", partition_count=partitions, find_hosted=lambda index: self.hosted.get(index)
        )
        self.partitions: list[Any] = [
            SimpleNamespace(topic=topic, index=index, log=SimpleNamespace(high_watermark=5))
            for index in range(partitions)
        ]
        self.hosted |= enumerate(self.partitions)
        self.topic: Any = topic
        cluster: Any = SimpleNamespace(topics=lambda: [topic], topic_by_id=lambda topic_id: topic)
        world: Any = SimpleNamespace(
            now_ms=lambda: self.now_s * 1000,
            call_later=lambda seconds, callback, *args: self.due.append((callback, args)),
            call_soon=lambda callback, *args: self.due.append((callback, args)),
        )
        self.arrivals = Arrivals(cluster, world)
        self.arrivals.start()

    @property
    def notes(self) -> Notes:
        found = self.arrivals.notes(self.topic, 0)
        assert found is not None
        return found

    def grow(self, partitions: int) -> None:
        for index in range(len(self.partitions), len(self.partitions) + partitions):
            log = SimpleNamespace(high_watermark=0)
            self.partitions.append(SimpleNamespace(topic=self.topic, index=index, log=log))
            self.hosted[index] = self.partitions[index]
        self.topic.partition_count = len(self.partitions)

    def turn(self) -> None:
        callback, args = self.due.pop()
        callback(*args)

    def second(self, end: int) -> None:
        self.now_s += 1
        self.partitions[0].log.high_watermark = end
        self.turn()

    def age_s(self, offset: int) -> float:
        return self.arrivals.age_ms(self.topic, 0, offset) / 1000


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
    assert len(notes.ends) <= 64
    for offset in (10, 1000, 5000, 9000):
        truth = 10_000 - (offset - 4)
        assert truth / 1.3 <= rig.age_s(offset) <= truth
    assert rig.age_s(10_004) == 0
    assert rig.age_s(10_000) == 4


def test_a_clock_that_goes_back_makes_no_negative_age() -> None:
    rig = Rig()
    rig.now_s -= 100
    assert rig.age_s(0) == 0


def test_many_partitions_are_looked_at_in_several_turns() -> None:
    rig = Rig(1200)
    assert rig.arrivals.age_ms(rig.topic, 1100, 0) == 0
    rig.turn()
    rig.now_s += 7
    assert rig.arrivals.age_ms(rig.topic, 1100, 0) == 7000


def test_the_oldest_record_of_many_partitions_is_that_of_the_one_furthest_back_in_time() -> None:
    rig = Rig(3)
    for second in range(1, 5):
        rig.partitions[second % 3].log.high_watermark += 1
        rig.second(rig.partitions[0].log.high_watermark)
    ends = [partition.log.high_watermark for partition in rig.partitions]
    for positions in ([5, 7, 6], [6, 5, 6], [6, 6, 6], [6, 7, 5], ends):
        singles = [
            rig.arrivals.age_ms(rig.topic, index, position)
            for index, (position, end) in enumerate(zip(positions, ends, strict=True))
            if position < end
        ]
        assert rig.arrivals.ages_ms(rig.topic, 0, positions, [0])[0] == max(singles, default=0)


def test_what_was_noted_of_a_partition_outlives_a_moment_in_which_nobody_here_knows_it() -> None:
    rig = Rig()
    rig.second(8)
    del rig.hosted[0]
    rig.second(8)
    rig.hosted[0] = rig.partitions[0]
    rig.second(9)
    assert [rig.age_s(offset) for offset in (0, 5, 8)] == [3, 2, 0]
    assert list(rig.notes.first_ends) == [5]


def test_a_partition_that_was_unknown_for_long_is_known_anew() -> None:
    rig = Rig()
    rig.second(8)
    del rig.hosted[0]
    for _ in range(20):
        rig.second(8)
    rig.hosted[0] = rig.partitions[0]
    rig.second(30)
    assert [rig.age_s(offset) for offset in (0, 5, 8)] == [22, 21, 0]
    assert list(rig.notes.first_ends) == [30], "when the records from 8 to 29 arrived was not seen here"


def test_a_log_that_lost_its_end_has_what_comes_then_from_then_on() -> None:
    rig = Rig()
    rig.second(10)
    rig.second(6)
    rig.second(10)
    assert [rig.age_s(offset) for offset in (0, 5, 6, 9)] == [3, 2, 0, 0]


def test_partitions_that_a_topic_gets_later_are_noted_from_then_on() -> None:
    rig = Rig()
    rig.second(8)
    rig.grow(1)
    rig.second(8)
    rig.partitions[1].log.high_watermark = 4
    rig.second(8)
    rig.second(8)
    assert rig.arrivals.age_ms(rig.topic, 1, 2) == 1000
    assert rig.arrivals.ages_ms(rig.topic, 0, [8, 2], [0, 0])[0] == 1000
    assert list(rig.notes.first_ends) == [5, 0]


def test_what_is_found_out_of_the_past_makes_records_older() -> None:
    rig = Rig()
    rig.second(8)
    rig.notes.found(0, 3, time_ms=900_000, now_ms=rig.now_s * 1000)
    rig.notes.found(0, 1, time_ms=500_000, now_ms=rig.now_s * 1000)
    assert [rig.age_s(offset) for offset in (0, 1, 2, 3, 4, 5)] == [501, 101, 101, 1, 1, 0]
    rig.notes.found(0, 4, time_ms=600_000, now_ms=rig.now_s * 1000)
    assert [rig.age_s(offset) for offset in (0, 1, 3, 4)] == [501, 401, 401, 1]


def test_what_is_found_at_about_the_same_time_is_one_note_and_the_notes_are_bounded() -> None:
    rig = Rig()
    now_ms = rig.now_s * 1000
    for age_s in (860, 880, 900):
        rig.notes.found(0, 2, now_ms - age_s * 1000, now_ms)
    assert len(rig.notes.ends) == 2
    for step in range(500):
        rig.notes.found(0, 2, now_ms - int(1000 * 1.2 ** (step / 5)), now_ms)
    assert len(rig.notes.ends) <= 96


def test_a_partition_has_stalled_since_its_record_and_its_last_progress() -> None:
    rig = Rig(2)
    for second in range(1, 9):
        rig.partitions[1].log.high_watermark = 5 + second // 2
        rig.second(5 + second)
    notes, start_ms = rig.notes, 1_000_000

    def since(positions: list[int], progress_s: list[int]) -> float:
        found = notes.stalled_since(
            positions, [start_ms + 1000 * each for each in progress_s], notes.first_past(positions)
        )
        assert found is not None
        return (found - start_ms) / 1000

    assert since([7, 6], [-100, -100]) == 3, "the first of them arrived then"
    assert since([7, 9], [5, -100]) == 5, "it committed after the record had come"
    assert since([7, 7], [8, 2]) == 6, "that one is older and has made progress, this one has not"
    assert since([7, 9], [20, -100]) == 20
    assert notes.stalled_since([13, 9], [0, 0], notes.first_past([13, 9])) is None


def test_how_long_partitions_have_stalled_is_what_each_of_them_says() -> None:
    chance = random.Random(5)
    for _ in range(200):
        notes, ends = Notes(), [0] * 4
        notes.add(ends, 0)
        for time in range(1, 30):
            ends = [end + chance.choice((0, 0, 0, 1, 3)) for end in ends]
            notes.add(ends, time)
        positions = [chance.randint(0, end) for end in ends]
        progress = [chance.choice((-5, -1, 1, 4, 9, 13, 22, 29, 35)) for _ in ends]
        singles = [
            max(first, progress[at])
            for at, position in enumerate(positions)
            if (first := notes.first_past_one(at, position)) is not None
        ]
        assert notes.stalled_since(positions, progress, notes.first_past(positions)) == min(singles, default=None)


def test_a_deleted_topic_is_forgotten() -> None:
    rig = Rig()
    rig.arrivals.topic_deleted(rig.topic)
    assert rig.age_s(0) == 0
    assert rig.arrivals._notes == {}
