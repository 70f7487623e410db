"""The machine goes down in the middle of a transaction: what was committed is there, nothing else, and nobody goes on.

Nothing of a transaction is on disk for certain before its commit is answered. So whatever a producer was told before,
it must not be able to commit after a power cut what it wrote before it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.transactions.broker_process import BrokerProcess
from tests.transactions.synced_broker import lose_power
from tests.transactions.wire_client import Producer, Wire, eventually, patiently

NONE = ErrorCode.NONE
TOPIC = "orders"
BOTH = pytest.mark.parametrize("classic", [True, False], ids=["classic", "kip-890"])
ROUNDS = 40


class Machine:
    def __init__(self, folder: Path) -> None:
        self.broker = BrokerProcess(folder / "data", "synced_broker")
        self._notes = folder / "notes"

    def boot(self) -> Wire:
        return self.broker.start(str(self._notes)).connect()

    def lose_power(self, chance: random.Random | None = None) -> Wire:
        self.broker.kill()
        lose_power(self.broker.folder, self._notes, chance)
        return self.boot()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    with machine.broker:
        wire = machine.boot()
        wire.create_topic(TOPIC, 2)
        yield machine


def steps(producer: Producer, number: int) -> list[Callable[[], ErrorCode]]:
    """A transaction of two records and an offset, all of them with this number."""
    value = b"%d" % number
    return [
        *([lambda: producer.add((TOPIC, 0), (TOPIC, 1))] if producer.classic else []),
        lambda: producer.write(TOPIC, value),
        lambda: producer.write(TOPIC, value, partition=1),
        *([lambda: producer.add_offsets("group")] if producer.classic else []),
        lambda: producer.commit_offset("group", TOPIC, 0, number),
        lambda: producer.end(commit=True),
    ]


def committed_offset(wire: Wire) -> int:
    topic = m.OffsetFetchRequest.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
    group = m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id="group", topics=[topic])

    def ask() -> m.OffsetFetchResponse.OffsetFetchResponseGroup:
        return wire.ask(m.OffsetFetchRequest(groups=[group], require_stable=True), m.OffsetFetchResponse, 8).groups[0]

    def is_stable(found: m.OffsetFetchResponse.OffsetFetchResponseGroup) -> bool:
        return found.error_code == NONE and all(each.error_code == NONE for each in found.topics[0].partitions)

    found = eventually(ask, is_stable)
    assert is_stable(found)
    return found.topics[0].partitions[0].committed_offset


def stable_values(wire: Wire, partition: int) -> list[bytes]:
    """What a `read_committed` reader sees when nothing is open any more."""

    def is_stable() -> bool:
        held = wire.fetch_partition(TOPIC, partition)
        return held.last_stable_offset == held.high_watermark

    assert eventually(is_stable, bool)
    return wire.fetch(TOPIC, partition)


@BOTH
@pytest.mark.parametrize("keeps_some", [False, True], ids=["nothing more", "some of the rest"])
def test_a_power_cut_after_any_step(machine: Machine, classic: bool, keeps_some: bool) -> None:
    chance = random.Random(1) if keeps_some else None
    wire = machine.broker.connect()
    committed: list[bytes] = []
    number = 0
    steps_done = 0
    while True:
        number += 1
        steps_done += 1
        producer = Producer(wire, "shop", classic=classic).start()
        transaction = steps(producer, number)
        for step in transaction[:steps_done]:
            assert patiently(step) == NONE
        is_committed = steps_done == len(transaction)
        wire = machine.lose_power(chance)
        producer.wire = wire
        if is_committed:
            committed.append(b"%d" % number)
            assert patiently(transaction[0]) != NONE  # nobody goes on
        else:
            for step in transaction[steps_done:]:
                patiently(step)
            assert patiently(transaction[-1]) != NONE
        assert stable_values(wire, 0) == stable_values(wire, 1) == committed
        assert committed_offset(wire) == (number if is_committed else -1)
        if is_committed:
            return


@pytest.mark.long
@BOTH
@pytest.mark.parametrize("seed", range(3))
def test_power_cuts_at_random(machine: Machine, classic: bool, seed: int) -> None:
    """Many transactions in a row, and a power cut somewhere: also while the last one is still being completed."""
    chance = random.Random(seed)
    wire = machine.broker.connect()
    committed: list[bytes] = []
    number = 0
    for _ in range(ROUNDS):
        producer = Producer(wire, "shop", classic=classic).start()
        for _ in range(chance.randint(0, 3)):
            number += 1
            for step in steps(producer, number):
                assert patiently(step) == NONE
            committed.append(b"%d" % number)
        number += 1
        transaction = steps(producer, number)
        done = chance.randrange(len(transaction))
        for step in transaction[:done]:
            assert patiently(step) == NONE
        wire = machine.lose_power(chance)
        producer.wire = wire
        for step in transaction[done:]:
            patiently(step)
        assert stable_values(wire, 0) == stable_values(wire, 1) == committed
        assert committed_offset(wire) == (int(committed[-1]) if committed else -1)
