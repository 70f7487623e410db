"""What the clients' notes prove: how long they were held up, and whether anything was lost, doubled or reordered."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from examples.cluster.load import QUEUE, STREAM, Seen


@dataclass(frozen=True, slots=True)
class Verdict:
    acknowledged: int
    pause_seconds: float
    """The longest time without an acknowledgement on partitions that the killed broker led."""
    others_pause_seconds: float
    lost: int
    reordered: int
    queued: int
    forgotten: int
    """Jobs that no worker was given, or that were neither accepted nor given to another."""
    accepted_twice: int
    """By a confirmed acceptance each time: never allowed."""

    @classmethod
    def of(cls, seen: Seen, leaders: dict[str, list[int]], victim: int, killed_at: float) -> Verdict:
        pauses: dict[bool, float] = {True: 0.0, False: 0.0}
        for topic, partitions in seen.acknowledged.items():
            for partition, records in enumerate(partitions):
                times = [at for at, _ in records]
                longest = max((b - a for a, b in pairwise(times) if b >= killed_at), default=float("inf"))
                was_led = leaders[topic][partition] == victim
                pauses[was_led] = max(pauses[was_led], longest)
        lost = reordered = 0
        for partition, records in enumerate(seen.acknowledged[STREAM]):
            found = [each[partition] for each in seen.consumed]
            lost += len({number for _, number in records} - set().union(*map(set, found)))
            reordered += sum(not _is_in_order(each) for each in found)
        accepted = Counter(record for each in seen.accepted for record in each)
        wanted = {(p, number) for p, records in enumerate(seen.acknowledged[QUEUE]) for _, number in records}
        return cls(
            acknowledged=sum(map(len, seen.acknowledged[STREAM])),
            pause_seconds=pauses[True],
            others_pause_seconds=pauses[False],
            lost=lost,
            reordered=reordered,
            queued=len(wanted),
            forgotten=len(wanted - accepted.keys() - {record for each in seen.unsure for record in each}),
            accepted_twice=sum(count > 1 for count in accepted.values()),
        )

    @property
    def is_good(self) -> bool:
        return not (self.lost or self.reordered or self.forgotten or self.accepted_twice)

    def rows(self) -> list[tuple[str, str]]:
        return [
            ("Producers of its partitions paused", f"{self.pause_seconds:.1f} s"),
            ("Producers of other partitions paused", f"{self.others_pause_seconds:.1f} s"),
            ("Records acknowledged, and lost", f"{self.acknowledged:,}, {self.lost:,}"),
            ("Consumers that saw records out of order", f"{self.reordered:,}"),
            ("Jobs queued, and forgotten", f"{self.queued:,}, {self.forgotten:,}"),
            ("Jobs whose confirmed acceptance did not last", f"{self.accepted_twice:,}"),
        ]


def _is_in_order(numbers: list[int]) -> bool:
    """A rebalance may repeat what was seen; what was not seen never comes after what was written later."""
    seen: set[int] = set()
    highest = -1
    for number in numbers:
        if number < highest and number not in seen:
            return False
        seen.add(number)
        highest = max(highest, number)
    return True
