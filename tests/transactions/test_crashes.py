"""The broker dies between any two steps of a transaction, and comes back with what was decided, no more and no less."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.transactions.broker_process import BrokerProcess
from tests.transactions.crashing_broker import BEGINNING, END
from tests.transactions.wire_client import Producer, Wire, eventually, patiently

NONE = ErrorCode.NONE
TOPIC = "orders"
# Each protocol once with each outcome in the default run; all of them under `long`.
SOME = [(False, True), (True, False)]
OTHERS = [(False, False), (True, True)]
WAYS = [
    pytest.param(classic, commit, id=f"{'classic' if classic else 'kip-890'}-{'commit' if commit else 'abort'}")
    for classic, commit in SOME
] + [
    pytest.param(
        classic,
        commit,
        id=f"{'classic' if classic else 'kip-890'}-{'commit' if commit else 'abort'}",
        marks=pytest.mark.long,
    )
    for classic, commit in OTHERS
]


@pytest.fixture
def unstarted(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data") as broker:
        yield broker


@pytest.fixture
def broker(unstarted: BrokerProcess) -> BrokerProcess:
    start(unstarted).close()
    return unstarted


def start(broker: BrokerProcess, point: str = "never") -> Wire:
    wire = broker.start(point).connect()
    wire.create_topic(TOPIC, 2)
    return wire


def restart(broker: BrokerProcess, *producers: Producer, point: str = "never") -> Wire:
    broker.start(point)
    wire = broker.connect()
    for producer in producers:
        producer.wire = wire
    return wire


def values(wire: Wire) -> list[bytes]:
    return [*wire.fetch(TOPIC, 0), *wire.fetch(TOPIC, 1)]


@pytest.mark.parametrize(("classic", "commit"), WAYS)
@pytest.mark.parametrize("point", END)
def test_the_broker_dies_while_a_transaction_ends(
    unstarted: BrokerProcess, point: str, classic: bool, commit: bool
) -> None:
    broker, wire = unstarted, start(unstarted, point)
    producer = Producer(wire, "shop", classic=classic).start()
    if classic:
        assert patiently(lambda: producer.add((TOPIC, 0), (TOPIC, 1))) == NONE
    assert patiently(lambda: producer.write(TOPIC, b"one")) == NONE
    assert producer.write(TOPIC, b"two", partition=1) == NONE
    try:
        answer: ErrorCode | None = producer.end(commit)
    except ConnectionError:
        answer = None
    broker.wait_until_dead()
    wire = restart(broker, producer)
    if answer is None:
        # The client repeats the request, and is told the same whether the first one arrived or not.
        assert patiently(lambda: producer.end(commit)) == NONE
    complete = "CompleteCommit" if commit else "CompleteAbort"
    assert eventually(lambda: wire.transaction_state("shop"), lambda now: now == complete) == complete
    assert values(wire) == ([b"one", b"two"] if commit else [])
    if classic:
        assert patiently(lambda: producer.add((TOPIC, 0))) == NONE
    assert patiently(lambda: producer.write(TOPIC, b"next")) == NONE
    assert producer.end(commit=True) == NONE
    assert values(wire) == ([b"one", b"next", b"two"] if commit else [b"next"])


@pytest.mark.parametrize("classic", [True, False], ids=["classic", "kip-890"])
@pytest.mark.parametrize("point", BEGINNING)
def test_the_broker_dies_while_a_transaction_begins(unstarted: BrokerProcess, point: str, classic: bool) -> None:
    broker, wire = unstarted, start(unstarted, point)
    producer = Producer(wire, "shop", classic=classic).start()
    with pytest.raises(ConnectionError):
        patiently(lambda: producer.add((TOPIC, 0)) if classic else producer.write(TOPIC, b"lost"))
    broker.wait_until_dead()
    wire = restart(broker, producer)
    if classic:
        assert patiently(lambda: producer.add((TOPIC, 0))) == NONE
    assert patiently(lambda: producer.write(TOPIC, b"one")) == NONE
    assert producer.end(commit=True) == NONE
    assert values(wire) == [b"one"]


@pytest.mark.parametrize("classic", [True, False], ids=["classic", "kip-890"])
def test_the_broker_dies_between_any_two_requests_and_the_transaction_goes_on(
    broker: BrokerProcess, classic: bool
) -> None:
    producer = Producer(broker.connect(), "shop", classic=classic)
    steps: list[Callable[[], ErrorCode]] = [
        producer.init,
        *([lambda: producer.add((TOPIC, 0), (TOPIC, 1))] if classic else []),
        lambda: producer.write(TOPIC, b"one"),
        lambda: producer.write(TOPIC, b"two", partition=1),
        *([lambda: producer.add_offsets("group")] if classic else []),
        lambda: producer.commit_offset("group", TOPIC, 0, 7),
        lambda: producer.end(commit=True),
    ]
    for step in steps:
        assert patiently(step) == NONE
        broker.kill()
        restart(broker, producer)
    wire = producer.wire
    assert eventually(lambda: wire.transaction_state("shop"), lambda now: now == "CompleteCommit") == "CompleteCommit"
    assert values(wire) == [b"one", b"two"]
    request = m.OffsetFetchRequest(
        groups=[
            m.OffsetFetchRequest.OffsetFetchRequestGroup(
                group_id="group",
                topics=[m.OffsetFetchRequest.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])],
            )
        ],
        require_stable=True,
    )
    response = wire.ask(request, m.OffsetFetchResponse, 8)
    assert response.groups[0].topics[0].partitions[0].committed_offset == 7


def test_open_records_stay_hidden_after_a_restart(broker: BrokerProcess) -> None:
    producer = Producer(broker.connect(), "shop").start()
    assert producer.write(TOPIC, b"open") == NONE
    broker.kill()
    wire = restart(broker, producer)
    assert wire.fetch(TOPIC) == []
    assert wire.fetch(TOPIC, committed=False) == [b"open"]
    assert wire.fetch_partition(TOPIC).last_stable_offset == 0


def test_a_transaction_that_no_coordinator_knows_is_aborted_at_the_start(broker: BrokerProcess) -> None:
    """As after a power cut that kept the records and lost the coordinator's log."""
    producer = Producer(broker.connect(), "shop").start()
    assert producer.write(TOPIC, b"orphan") == NONE
    broker.kill()
    for segment in broker.folder.glob("__transaction_state-*/*.log"):
        segment.write_bytes(b"")
    wire = restart(broker, producer)
    assert eventually(lambda: wire.fetch_partition(TOPIC).last_stable_offset, lambda offset: offset == 2) == 2
    assert wire.fetch(TOPIC) == []
    assert producer.write(TOPIC, b"orphan") != NONE
