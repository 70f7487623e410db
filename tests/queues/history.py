"""A checker for the history of a queue: what clients saw, against what a share group promises.

Clients write down what they asked and what they got, each with the times around it. Nothing is assumed about what the
broker did meanwhile, so a verdict holds whatever crashed:

* a record that was acknowledged (and the broker confirmed it) is never delivered again;
* it ends once: nobody gets two confirmations for one record;
* two members never hold a record at the same time: a delivery inside the lock of another is a fault, unless that one
  had ended (released, session closed, connection lost, broker killed);
* the delivery count stays within the limit;
* the start offset never moves back;
* in the end every record is confirmed, or was delivered as often as it may be.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple


class Delivery(NamedTuple):
    offset: int
    member: str
    asked_at: float
    """Before the request was sent: the record was acquired after this."""
    got_at: float
    """After the response came: the record was acquired before this."""
    delivery_count: int


class Answer(NamedTuple):
    offset: int
    member: str
    kind: str
    """accept, reject or release."""
    sent_at: float
    told_at: float
    confirmed: bool | None
    """None when the connection was lost before the outcome was known."""


@dataclass
class History:
    lock_seconds: float
    delivery_count_limit: int
    deliveries: list[Delivery] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    ends: list[tuple[str, float]] = field(default_factory=list)
    """When a member's session or connection began to end."""
    kills: list[float] = field(default_factory=list)
    """When the broker was killed."""
    start_offsets: list[int] = field(default_factory=list)
    _by_holder: dict[tuple[int, str], list[Delivery]] = field(default_factory=dict)

    def faults(self, records: int) -> list[str]:
        """What is wrong with this history of that many records; empty if nothing is."""
        self._by_holder = defaultdict(list)
        for delivery in self.deliveries:
            self._by_holder[delivery.offset, delivery.member].append(delivery)
        return [
            *self._faults_of_endings(),
            *self._faults_of_locks(),
            *self._faults_of_counts(),
            *self._faults_of_start_offsets(),
            *self._faults_of_completeness(records),
        ]

    def _final(self) -> dict[int, list[Answer]]:
        final: dict[int, list[Answer]] = defaultdict(list)
        for answer in self.answers:
            if answer.kind != "release" and answer.confirmed:
                final[answer.offset].append(answer)
        return final

    def _faults_of_endings(self) -> list[str]:
        faults = []
        final = self._final()
        for offset, answers in final.items():
            in_time = [answer for answer in answers if self._was_in_time(answer)]
            if len(in_time) > 1:
                faults.append(f"offset {offset} ended {len(in_time)} times: {in_time}")
        for delivery in self.deliveries:
            faults += [
                f"offset {delivery.offset} was delivered after its end: {delivery} after {answer}"
                for answer in final.get(delivery.offset, [])
                if delivery.asked_at > answer.told_at
            ]
        return faults

    def _was_in_time(self, answer: Answer) -> bool:
        """Whether the answer certainly reached the broker under the lock it is about.

        Kafka lets an answer that comes too late pass when the record is behind the start offset by then: it confirms
        that the record is done, not that this answer did it.
        """
        return any(
            answer.told_at < delivery.asked_at + self.lock_seconds
            for delivery in self._by_holder.get((answer.offset, answer.member), [])
        )

    def _faults_of_locks(self) -> list[str]:
        faults = []
        by_offset: dict[int, list[Delivery]] = defaultdict(list)
        for delivery in self.deliveries:
            by_offset[delivery.offset].append(delivery)
        given_up: dict[tuple[int, str], list[float]] = defaultdict(list)
        for answer in self.answers:
            given_up[answer.offset, answer.member].append(answer.sent_at)
        ended: dict[str, list[float]] = defaultdict(list)
        for member, at in self.ends:
            ended[member].append(at)
        for offset, deliveries in by_offset.items():
            deliveries.sort(key=lambda delivery: delivery.got_at)
            for earlier, later in itertools.pairwise(deliveries):
                if later.got_at >= earlier.asked_at + self.lock_seconds:
                    continue
                reasons = [*given_up[offset, earlier.member], *ended[earlier.member], *self.kills]
                if not any(earlier.asked_at <= at <= later.got_at for at in reasons):
                    faults.append(f"offset {offset} was held twice: {earlier} and {later}")
        return faults

    def _faults_of_counts(self) -> list[str]:
        return [
            f"offset {delivery.offset} was delivered {delivery.delivery_count} times"
            for delivery in self.deliveries
            if delivery.delivery_count > self.delivery_count_limit
        ]

    def _faults_of_start_offsets(self) -> list[str]:
        return [
            f"the start offset moved back from {before} to {after}"
            for before, after in zip(self.start_offsets, self.start_offsets[1:], strict=False)
            if after < before
        ]

    def _faults_of_completeness(self, records: int) -> list[str]:
        final = self._final()
        unsure = {answer.offset for answer in self.answers if answer.confirmed is None}
        most: dict[int, int] = defaultdict(int)
        for delivery in self.deliveries:
            most[delivery.offset] = max(most[delivery.offset], delivery.delivery_count)
        return [
            f"offset {offset} was lost after {most[offset]} deliveries"
            for offset in range(records)
            if offset not in final and offset not in unsure and most[offset] < self.delivery_count_limit
        ]
