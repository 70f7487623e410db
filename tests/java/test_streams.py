"""A Kafka Streams application counts each record exactly once, whatever is killed meanwhile.

Two instances with static members (KIP-345) and exactly-once processing (KIP-447) share the topics: the input, a
repartition topic, the changelog of the store, and the output. Streams uses the classic group protocol.
"""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, ConsumerGroupState, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.peers import KAFKA_VERSION, Peer, PenstockPeer, die_with_parent, maven_jars

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

HERE = Path(__file__).parent / "streams"
APPLICATION = "click-counter"
USERS = [f"user-{n}" for n in range(20)]
PARTITIONS = 4
CLICKS_PER_S = 300
WAIT_S = 180.0


def wait_until(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < until, f"waited {WAIT_S:.0f} s in vain: {what}"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = Path.home() / ".cache" / "penstock" / f"kafka-streams-{KAFKA_VERSION}"
    jars = maven_jars(HERE / "pom.xml", folder, f"kafka-streams-{KAFKA_VERSION}.jar")
    classes = tmp_path_factory.mktemp("classes")
    command = ["javac", "-d", str(classes), "-cp", f"{jars}/*", str(HERE / "CountClicks.java")]
    subprocess.run(command, check=True, timeout=120)
    return f"{classes}:{jars}/*"


class Instance:
    """A process of the application; it comes back under its name and with its folder."""

    def __init__(self, class_path: str, broker: Peer, name: str, folder: Path) -> None:
        self._command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", class_path]
        self._command += ["CountClicks", broker.bootstrap, APPLICATION, name, str(folder / "state")]
        self._output = folder / "output.txt"
        self._log = folder / "log.txt"
        folder.mkdir()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._output.open("wb") as output, self._log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=log, preexec_fn=die_with_parent)

    def states(self) -> list[str]:
        """Every state since the start."""
        return self._output.read_text().split()

    def generations(self) -> list[int]:
        """The generation of the group after each time that the member joined since the start."""
        joined = re.findall(
            r"Successfully joined group with generation Generation{generationId=(\d+)", self._log.read_text()
        )
        return [int(generation) for generation in joined]

    def is_running(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()[-3000:]
        return self.states()[-1:] == ["RUNNING"]

    def end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(60)


class Clicks:
    """Produces clicks at an even pace, in a thread of its own, until the end of the `with` block."""

    def __init__(self, bootstrap: str) -> None:
        self.made: list[str] = []
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._produce)

    def _produce(self) -> None:
        while not self._ended.wait(1 / CLICKS_PER_S):
            number = len(self.made)
            user = USERS[number * number % len(USERS)]
            self._producer.produce("clicks", user, partition=number % PARTITIONS)
            self.made.append(user)
        assert self._producer.flush(WAIT_S) == 0

    def __enter__(self) -> Clicks:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()


class Counts:
    """Reads the committed counts, each user's in the order of the log."""

    def __init__(self, bootstrap: str) -> None:
        config = {"bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": "read_committed"}
        self._consumer = Consumer({**config, "enable.auto.commit": False, "enable.partition.eof": True})
        self._consumer.assign([TopicPartition("counts", n, OFFSET_BEGINNING) for n in range(PARTITIONS)])
        self.of: dict[str, list[int]] = defaultdict(list)
        self._total = 0
        self._ended: set[int] = set()

    def _read(self) -> None:
        for message in self._consumer.consume(500, 0.2):
            error = message.error()
            if error is None:
                self.of[(message.key() or b"").decode()].append(int(message.value() or b""))
                self._total += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                self._ended.add(-1 if (partition := message.partition()) is None else partition)

    def reach(self, total: int) -> None:
        def is_reached() -> bool:
            self._read()
            return self._total >= total

        wait_until(is_reached, f"{total} counts")

    def reach_more(self, count: int) -> None:
        self.reach(self._total + count)

    def reach_the_end(self) -> None:
        def is_reached() -> bool:
            self._read()
            return len(self._ended) == PARTITIONS

        wait_until(is_reached, "the ends of the partitions")


def assignment(admin: AdminClient) -> dict[str, set[tuple[str, int]]]:
    """The partitions of each member; empty unless the group is stable."""
    group = admin.describe_consumer_groups([APPLICATION])[APPLICATION].result(30)
    if group.state != ConsumerGroupState.STABLE:
        return {}
    return {m.group_instance_id: {(p.topic, p.partition) for p in m.assignment.topic_partitions} for m in group.members}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Peer]:
    settings = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}
    with PenstockPeer(settings, tmp_path) as peer:
        yield peer


def test_every_click_is_counted_once_whatever_is_restarted_and_killed(
    broker: Peer, class_path: str, tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for created in admin.create_topics([NewTopic(name, PARTITIONS) for name in ("clicks", "counts")]).values():
        created.result(30)
    one, two = (Instance(class_path, broker, name, tmp_path / name) for name in ("one", "two"))
    counts = Counts(broker.bootstrap)
    with ExitStack() as stack:
        for instance in (one, two):
            instance.start()
            stack.callback(instance.end, signal.SIGKILL)
        settled = settled_assignment(admin, one, two)
        with Clicks(broker.bootstrap) as clicks:
            counts.reach_more(500)

            # A static member that comes back finds its generation and its partitions, so nobody else notices.
            states, generation = one.states(), two.generations()[-1]
            two.end(signal.SIGTERM)
            two.start()
            wait_until(two.is_running, "the stopped instance runs again")
            counts.reach_more(500)
            assert one.states() == states
            assert set(two.generations()) == {generation}

            # So does one that was killed. Streams may ask for a rebalance then, because its store is not clean.
            two.end(signal.SIGKILL)
            two.start()
            wait_until(two.is_running, "the killed instance runs again")
            counts.reach_more(500)
            assert two.generations()[0] == generation
            wait_until(lambda: assignment(admin) == settled, "the partitions are assigned as before")

            broker.stop(kill=True)
            broker.start()
            counts.reach_more(500)
        counts.reach(len(clicks.made))
        for instance in (one, two):
            assert instance.is_running()
            instance.end(signal.SIGTERM)
    counts = Counts(broker.bootstrap)
    counts.reach_the_end()
    expected = {user: list(range(1, clicks.made.count(user) + 1)) for user in set(clicks.made)}
    assert counts.of == expected


def settled_assignment(admin: AdminClient, *instances: Instance) -> dict[str, set[tuple[str, int]]]:
    """Waits until the group is stable and every instance has work."""
    found: dict[str, set[tuple[str, int]]] = {}

    def is_settled() -> bool:
        nonlocal found
        found = assignment(admin) if all(instance.is_running() for instance in instances) else {}
        return len(found) == len(instances) and all(found.values())

    wait_until(is_settled, "both instances run and have partitions")
    return found
