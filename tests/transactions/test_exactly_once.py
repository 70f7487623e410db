"""A consume-transform-produce program, while programs and broker are killed at random.

A *generator* writes numbered values in transactions, of which it commits some and aborts some. Two *copiers* (processes
of their own) move them to another topic, each with its input offsets in the same transaction. *Observers* read both
topics all the while with `read_committed`. Meanwhile copiers and broker are killed with SIGKILL and started again.

The checks are those of Jepsen's workload for Kafka:

- aborted read: a value of an aborted transaction was seen;
- precommitted read: a value was seen before anybody had asked to commit it;
- lost write: a value whose commit was acknowledged is missing in the end;
- duplicate: a value is there twice;
- inconsistent offsets: an offset showed one value once and another value later;
- nonmonotonic poll: a consumer was given an offset that is not after the one before;
- torn transaction: of a transaction whose outcome the generator never heard, a part is there.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import KafkaException, TopicPartition

from tests.transactions.broker_process import ROOT, BrokerProcess
from tests.transactions.copier import client_configs

SOURCE, TARGET = "source", "target"
PARTITIONS = 2
WAIT_S = 30
END_TIMEOUT_S = 90
# A group needs its time (session timeout, rebalance) before it works again.
PAUSES_S = {"assign": (0.5, 2.0), "subscribe": (2.0, 14.0), "kip-890": (0.5, 2.0)}
PROGRAMS = {
    "assign": ("tests.transactions.copier", "assign"),
    "subscribe": ("tests.transactions.copier", "subscribe"),
    "kip-890": ("tests.transactions.modern_copier", "assign"),
}


@dataclass
class Transaction:
    values: list[bytes]
    commit_asked: bool = False
    committed: bool | None = None  # None: nobody knows yet


@dataclass
class History:
    """What happened, as everybody saw it."""

    transactions: list[Transaction] = field(default_factory=list)
    owner: dict[bytes, Transaction] = field(default_factory=dict)
    shown: dict[tuple[str, int, int], bytes] = field(default_factory=dict)
    anomalies: list[str] = field(default_factory=list)

    def began(self, values: list[bytes]) -> Transaction:
        transaction = Transaction(values)
        self.transactions.append(transaction)
        for value in values:
            self.owner[value] = transaction
        return transaction

    def seen(self, topic: str, partition: int, offset: int, value: bytes) -> None:
        transaction = self.owner[value]
        if not transaction.commit_asked:
            kind = "aborted read" if transaction.committed is False else "precommitted read"
            self.anomalies.append(f"{kind}: {value!r} in {topic}-{partition} at {offset}")
        before = self.shown.setdefault((topic, partition, offset), value)
        if before != value:
            self.anomalies.append(f"inconsistent offset {offset} of {topic}-{partition}: {before!r}, then {value!r}")

    def is_short(self, has_time: bool = True) -> bool:
        """Whether too little has happened to mean anything, as on a machine that is busy with other things."""
        outcomes = Counter(transaction.committed for transaction in self.transactions)
        return has_time and (outcomes[True] < 20 or outcomes[False] < 5)

    def is_copied(self) -> bool:
        wanted = {value for each in self.transactions if each.committed for value in each.values}
        shown = self.shown.copy()  # in one step, as readers go on
        source = {value for (topic, _, _), value in shown.items() if topic == SOURCE}
        return wanted <= source <= {value for (topic, _, _), value in shown.items() if topic == TARGET}

    def check_end(self) -> None:
        for topic in (SOURCE, TARGET):
            counts = Counter(value for (name, _, _), value in self.shown.items() if name == topic)
            self.anomalies += [f"duplicate in {topic}: {value!r}" for value, number in counts.items() if number > 1]
            for transaction in self.transactions:
                there = [value for value in transaction.values if value in counts]
                if transaction.committed is True and len(there) < len(transaction.values):
                    self.anomalies.append(f"lost write in {topic}: {set(transaction.values) - set(there)}")
                elif transaction.committed is False and there:
                    self.anomalies.append(f"aborted read in {topic}: {there}")
                elif topic == SOURCE and there and len(there) < len(transaction.values):
                    self.anomalies.append(f"torn transaction: {there} of {transaction.values}")
        source = {value for (name, _, _), value in self.shown.items() if name == SOURCE}
        target = {value for (name, _, _), value in self.shown.items() if name == TARGET}
        if source != target:
            self.anomalies.append(f"not copied: {source - target}; from nowhere: {target - source}")


class Generator(threading.Thread):
    def __init__(self, bootstrap: str, history: History, seed: int) -> None:
        super().__init__()
        self._servers = bootstrap
        self._history = history
        self._chance = random.Random(seed)
        self._number = 0
        self.stopping = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                try:
                    self._work()
                except KafkaException as error:
                    if not error.args[0].fatal() and not error.args[0].txn_requires_abort():
                        raise
        except BaseException as failure:
            self.failure = failure

    def _work(self) -> None:
        """Write transactions with one producer, until the end or until the producer must be replaced."""
        producer = confluent_kafka.Producer(
            {**client_configs(self._servers), "transactional.id": "generator", "linger.ms": 0}
        )
        producer.init_transactions(WAIT_S)
        while not self.stopping.is_set():
            count = self._chance.randint(1, 8)
            transaction = self._history.began([f"{self._number + n}".encode() for n in range(count)])
            self._number += count
            producer.begin_transaction()
            for value in transaction.values:
                producer.produce(SOURCE, value, partition=self._chance.randrange(PARTITIONS))
            if self._chance.random() < 0.3:
                producer.flush(WAIT_S)
                transaction.committed = False
                producer.abort_transaction(WAIT_S)
                continue
            transaction.commit_asked = True
            try:
                producer.commit_transaction(WAIT_S)
                transaction.committed = True
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise  # nobody knows the outcome
                transaction.committed = False
                producer.abort_transaction(WAIT_S)


class Observer(threading.Thread):
    """Reads one topic with `read_committed` from its beginning until it is told to stop at the end."""

    def __init__(self, bootstrap: str, topic: str, history: History) -> None:
        super().__init__()
        self._servers = bootstrap
        self._topic = topic
        self._history = history
        self._last = dict.fromkeys(range(PARTITIONS), -1)
        self.stopping = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        consumer = confluent_kafka.Consumer(
            {
                **client_configs(self._servers),
                "group.id": f"observer-{self._topic}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        consumer.assign([TopicPartition(self._topic, partition, 0) for partition in range(PARTITIONS)])
        try:
            while not self.stopping.is_set():
                for message in consumer.consume(100, 0.1):
                    if message.error() is None:
                        self._saw(message)
        except BaseException as failure:
            self.failure = failure
        finally:
            consumer.close()

    def _saw(self, message: confluent_kafka.Message) -> None:
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert offset is not None
        assert value is not None
        if offset <= self._last[partition]:
            self._history.anomalies.append(f"nonmonotonic poll of {self._topic}-{partition}: {offset}")
        self._last[partition] = offset
        self._history.seen(self._topic, partition, offset, value)


class Copiers:
    """Programs that are started again whenever they have ended, killed or not."""

    def __init__(self, bootstrap: str, way: str, output: Path) -> None:
        self._servers = bootstrap
        self._output = output
        self._way = way
        self._processes: dict[int, subprocess.Popen[bytes] | None] = dict.fromkeys(range(PARTITIONS))
        self._starts = 0

    def keep_running(self) -> None:
        for number, process in self._processes.items():
            if process is None or process.poll() is not None:
                self._starts += 1
                module, way = PROGRAMS[self._way]
                command = [sys.executable, "-m", module, self._servers, "copy", str(number), SOURCE, TARGET]
                command += [str(self._starts), way]
                with self._output.open("ab") as output:
                    self._processes[number] = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)

    def kill(self, chance: random.Random) -> None:
        process = self._processes[chance.choice(list(self._processes))]
        if process is not None:
            process.kill()
            process.wait()

    def stop(self) -> None:
        for process in self._processes.values():
            if process is not None:
                process.kill()
                process.wait()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data") as broker:
        wire = broker.start().connect()
        wire.create_topic(SOURCE, PARTITIONS)
        wire.create_topic(TARGET, PARTITIONS)
        wire.close()
        yield broker


def run_chaos(broker: BrokerProcess, seconds: float, seed: int, way: str) -> History:
    chance = random.Random(seed)
    history = History()
    generator = Generator(broker.bootstrap, history, seed)
    observers = [Observer(broker.bootstrap, topic, history) for topic in (SOURCE, TARGET)]
    threads: list[Generator | Observer] = [generator, *observers]
    copiers = Copiers(broker.bootstrap, way, broker.folder.parent / "copiers.out")
    try:
        for thread in threads:
            thread.start()
        began = time.monotonic()
        while time.monotonic() - began < seconds or history.is_short(time.monotonic() - began < END_TIMEOUT_S):
            copiers.keep_running()
            time.sleep(chance.uniform(*PAUSES_S[way]))
            if chance.random() < 0.5:
                broker.kill()
                time.sleep(chance.uniform(0.0, 0.5))
                broker.start()
            else:
                copiers.kill(chance)
        generator.stopping.set()
        generator.join(END_TIMEOUT_S)
        assert not generator.is_alive()
        wait_until_copied(history, copiers)
    finally:
        generator.stopping.set()
        for observer in observers:
            observer.stopping.set()
        copiers.stop()
        for thread in threads:
            thread.join(END_TIMEOUT_S)
    for thread in threads:
        assert thread.failure is None, thread.failure
    history.check_end()
    return history


def wait_until_copied(history: History, copiers: Copiers) -> None:
    """For as long as anything moves: how much there is left to copy, nobody knows."""
    seen, moved_at = -1, time.monotonic()
    while not history.is_copied() and time.monotonic() - moved_at < END_TIMEOUT_S:
        copiers.keep_running()
        time.sleep(0.2)
        if len(history.shown) != seen:
            seen, moved_at = len(history.shown), time.monotonic()


def check(history: History) -> None:
    assert history.anomalies == []
    assert not history.is_short()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("way", ["assign", "kip-890"])
def test_every_input_is_seen_exactly_once_while_programs_and_broker_are_killed(broker: BrokerProcess, way: str) -> None:
    check(run_chaos(broker, seconds=5, seed=1, way=way))


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", ["assign", "subscribe", "kip-890"])
@pytest.mark.parametrize("seed", range(2))
def test_the_same_for_minutes(broker: BrokerProcess, seed: int, way: str) -> None:
    check(run_chaos(broker, seconds=120, seed=seed, way=way))
