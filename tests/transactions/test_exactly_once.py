"""A consume-transform-produce program, while programs and broker are killed at random.

A *generator* writes numbered values in transactions, of which it commits some and aborts some. Two *copiers* (processes
of their own) move them to another topic, each with its input offsets in the same transaction. *Observers* read both
topics all the while with `read_committed`. Meanwhile copiers and broker are killed with SIGKILL and started again.

What they did and saw is a history, which `penstock.checks` judges. Three checks are added here:

- `early-read`: a value was seen before a commit of its transaction was requested;
- `torn`: of a transaction whose outcome the generator never heard, a part is there;
- `not-copied`: a value of the source is not there exactly once in the target;
- `not-drained`: nobody could read all that is there, because an open transaction held it back or the reader did not get
  there. Then nothing is said about what is missing: a reader that stands still has lost nothing.

A history that shows an anomaly is kept, with the data folder of the broker, and its path is in the failure.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import KafkaException, TopicPartition

from penstock.checks import Finding, Operation, check
from penstock.checks.history import checked
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
    name: str
    partitions: dict[bytes, int]
    """Where each value goes."""
    delivered: dict[bytes, int] = field(default_factory=dict)
    """The offsets that the broker has answered."""
    commit_requested: bool = False
    committed: bool | None = None
    """None: unknown."""


class History:
    """What happened, as everybody saw it."""

    def __init__(self) -> None:
        self.transactions: list[Transaction] = []
        self.operations: list[Operation] = []
        self.shown: dict[tuple[str, int, int], bytes] = {}
        self._owner: dict[bytes, Transaction] = {}
        self._early: list[Finding] = []
        self.unread: list[str] = []
        """Partitions that could not be read to their ends when all was over, and how far that was."""

    def began(self, partitions: dict[bytes, int]) -> Transaction:
        transaction = Transaction(f"transaction-{len(self.transactions)}", partitions)
        self.transactions.append(transaction)
        for value in partitions:
            self._owner[value] = transaction
        return transaction

    def polled(self, topic: str, partition: int, offset: int, value: bytes, reader: str = "observer") -> None:
        record = [topic, partition, offset, value.decode()]
        self.operations.append(
            {
                "op": "poll",
                "process": f"{reader} of {topic}",
                "records": [record],
                "how": "assign",
                "isolation": "read_committed",
            }
        )
        if not self._owner[value].commit_requested:
            self._early.append(Finding("early-read", f"{record}", len(self.operations)))
        self.shown[topic, partition, offset] = value

    def is_short(self, has_time: bool = True) -> bool:
        """Whether too little has happened to mean anything, as on a machine that is busy with other things."""
        outcomes = Counter(transaction.committed for transaction in self.transactions)
        return has_time and (outcomes[True] < 20 or outcomes[False] < 5)

    def is_copied(self) -> bool:
        committed = {value for each in self.transactions if each.committed for value in each.partitions}
        shown = self.shown.copy()  # in one step, as readers go on
        source = {value for (topic, _, _), value in shown.items() if topic == SOURCE}
        return committed <= source <= {value for (topic, _, _), value in shown.items() if topic == TARGET}

    def complete(self) -> None:
        """Add what the generator did, now that all that can be known about it is."""
        for transaction in self.transactions:
            for value, partition in transaction.partitions.items():
                offset = transaction.delivered.get(value)
                known = {"result": "unknown"} if offset is None else {"result": "ok", "offset": offset}
                sent = {"process": "generator", "topic": SOURCE, "partition": partition, "value": value.decode()}
                self.operations.append({"op": "send", "txn": transaction.name, **sent, **known})
            result = {None: "unknown", True: "committed", False: "aborted"}[transaction.committed]
            self.operations.append({"op": "txn-end", "txn": transaction.name, "result": result})
        if not self.unread:
            self.operations.append({"op": "drained", "isolation": "read_committed"})

    def judge(self) -> list[Finding]:
        operations = (checked(operation, line) for line, operation in enumerate(self.operations, 1))
        unread = [Finding("not-drained", text, 0) for text in self.unread]
        return [*check(operations), *self._early, *(unread or (*self._torn(), *self._not_copied()))]

    def _torn(self) -> Iterator[Finding]:
        shown = {value for (topic, _, _), value in self.shown.items() if topic == SOURCE}
        for transaction in self.transactions:
            seen = shown & transaction.partitions.keys()
            complete = len(seen) == len(transaction.partitions)
            if seen and not complete:
                yield Finding("torn", f"{sorted(seen)} of {transaction}", 0)
            if transaction.committed and not complete:
                yield Finding("lost-write", f"{sorted(transaction.partitions.keys() - seen)} of {transaction}", 0)

    def _not_copied(self) -> Iterator[Finding]:
        source = Counter(value for (topic, _, _), value in self.shown.items() if topic == SOURCE)
        target = Counter(value for (topic, _, _), value in self.shown.items() if topic == TARGET)
        for value in source.keys() | target.keys():
            if source[value] != 1 or target[value] != 1:
                text = f"{value!r} is {source[value]} times in the source and {target[value]} times in the target"
                yield Finding("not-copied", text, 0)

    def write(self, path: Path) -> None:
        path.write_text("".join(json.dumps(operation) + "\n" for operation in self.operations))


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
            values = [f"{self._number + number}".encode() for number in range(count)]
            transaction = self._history.began({value: self._chance.randrange(PARTITIONS) for value in values})
            self._number += count
            producer.begin_transaction()
            for value, partition in transaction.partitions.items():
                producer.produce(SOURCE, value, partition=partition, on_delivery=partial(_note, transaction))
            if self._chance.random() < 0.3:
                producer.flush(WAIT_S)
                transaction.committed = False
                producer.abort_transaction(WAIT_S)
                continue
            transaction.commit_requested = True
            try:
                producer.commit_transaction(WAIT_S)
                transaction.committed = True
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise  # nobody knows the outcome
                transaction.committed = False
                producer.abort_transaction(WAIT_S)


def _note(transaction: Transaction, error: object, message: confluent_kafka.Message) -> None:
    value, offset = message.value(), message.offset()
    if error is None and value is not None and offset is not None:
        transaction.delivered[value] = offset


class Observer(threading.Thread):
    """Reads one topic with `read_committed` from its beginning until the end."""

    def __init__(self, bootstrap: str, topic: str, history: History) -> None:
        super().__init__()
        self._servers = bootstrap
        self._topic = topic
        self._history = history
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
        self._history.polled(self._topic, partition, offset, value)


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
    for topic in (SOURCE, TARGET):
        read_to_the_end(broker.bootstrap, topic, history)
    history.complete()
    return history


def read_to_the_end(bootstrap: str, topic: str, history: History) -> None:
    """Read a topic once more, to where it ends: the observers may have been anywhere when they were stopped."""
    places = [TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)]
    readers = {
        isolation: confluent_kafka.Consumer(
            {
                **client_configs(bootstrap),
                "group.id": f"last-{topic}",
                "enable.auto.commit": False,
                "isolation.level": isolation,
            }
        )
        for isolation in ("read_committed", "read_uncommitted")
    }
    reader = readers["read_committed"]
    reader.assign(places)
    ends: dict[int, tuple[int, int]] = {}
    deadline = time.monotonic() + END_TIMEOUT_S
    while time.monotonic() < deadline:
        for message in reader.consume(1000, 0.2):
            partition, offset, value = message.partition(), message.offset(), message.value()
            if message.error() is None and partition is not None and offset is not None and value is not None:
                history.polled(topic, partition, offset, value, "last reader")
        ends = {
            place.partition: (readers["read_uncommitted"].get_watermark_offsets(place, WAIT_S)[1], position.offset)
            for place, position in zip(places, reader.position(places), strict=True)
        }
        if all(end == position for end, position in ends.values()):
            break
    else:
        history.unread += [
            f"{topic}-{partition} ends at {end}, and was read to {position} in {END_TIMEOUT_S} seconds"
            for partition, (end, position) in ends.items()
            if end != position
        ]
    for each in readers.values():
        each.close()


def wait_until_copied(history: History, copiers: Copiers) -> None:
    """For as long as anything moves: how much there is left to copy, nobody knows."""
    seen, moved_at = -1, time.monotonic()
    while not history.is_copied() and time.monotonic() - moved_at < END_TIMEOUT_S:
        copiers.keep_running()
        time.sleep(0.2)
        if len(history.shown) != seen:
            seen, moved_at = len(history.shown), time.monotonic()


def judge(history: History, folder: Path) -> None:
    findings = history.judge()
    if findings:
        kept = Path(tempfile.mkdtemp(prefix="exactly-once-"))
        history.write(kept / "history.jsonl")
        shutil.copytree(folder, kept / "data")
        texts = "\n".join(map(str, findings[:20]))
        raise AssertionError(f"{len(findings)} findings; the history and the broker's folder are in {kept}\n{texts}")
    assert not history.is_short()


def history_of(source: list[bytes], target: list[bytes], *, committed: bool | None = True) -> History:
    """One transaction of two values, and what readers saw."""
    history = History()
    transaction = history.began({b"1": 0, b"2": 0})
    transaction.commit_requested, transaction.committed = True, committed
    transaction.delivered = {b"1": 0, b"2": 1}
    for topic, values in ((SOURCE, source), (TARGET, target)):
        for offset, value in enumerate(values):
            history.polled(topic, 0, offset, value)
    history.complete()
    return history


@pytest.mark.parametrize(
    ("history", "finding"),
    [
        (history_of([b"1", b"2"], [b"1", b"2"]), None),
        (history_of([b"1"], [b"1"]), "lost-write"),
        (history_of([b"1"], [b"1"], committed=None), "torn"),
        (history_of([b"1", b"2"], [b"1", b"2"], committed=False), "G1a"),
        (history_of([b"1", b"2"], [b"1"]), "not-copied"),
        (history_of([b"1", b"2"], [b"1", b"2", b"1"]), "duplicate"),
    ],
)
def test_what_is_planted_is_found(history: History, finding: str | None) -> None:
    found = {each.check for each in history.judge()}
    assert finding in found if finding else not found


def test_a_reader_that_does_not_get_to_the_end_has_lost_nothing() -> None:
    """An open transaction holds a reader back: thousands of writes behind it were once counted as lost."""
    history = History()
    for number in range(3_000):
        transaction = history.began({str(number).encode(): 0})
        transaction.commit_requested = transaction.committed = True
        transaction.delivered[str(number).encode()] = 2 * number
        if number < 50:
            history.polled(SOURCE, 0, 2 * number, str(number).encode())
    history.unread.append("source-0 ends at 6000, and was read to 100 in 90 seconds")
    history.complete()
    assert [str(each) for each in history.judge()] == [f"not-drained: {history.unread[0]}"]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("way", ["assign", "kip-890"])
def test_every_input_is_seen_exactly_once_while_programs_and_broker_are_killed(broker: BrokerProcess, way: str) -> None:
    judge(run_chaos(broker, seconds=5, seed=1, way=way), broker.folder)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", ["assign", "subscribe", "kip-890"])
@pytest.mark.parametrize("seed", range(2))
def test_the_same_for_minutes(broker: BrokerProcess, seed: int, way: str) -> None:
    judge(run_chaos(broker, seconds=120, seed=seed, way=way), broker.folder)
