"""docs/how-to/moving.md: over to Penstock and back, with what a real Apache Kafka has left."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bench.peers import SMALL_JVM_OPTIONS, KafkaPeer
from tests.adoption.folders import Recorded
from tests.docs.blocks import Block, Blocks, carries_out
from tests.docs.reader import WAIT_SECONDS, Reader, follow

TAKING_OVER = "Taking over the folders of a stopped broker"
RETURNING = "Returning to Apache Kafka"
WITHOUT_A_STOP = "Moving without a stop"
LARGE = "A large source"


@carries_out("how-to/moving.md", TAKING_OVER)
def test_the_folders_of_apache_kafka_are_taken_over(reader: Reader, blocks: Blocks) -> None:
    recorded = Recorded(reader.folder / "recorded", "4.3.1")  # with two of them, of which the page names one
    both = f"{recorded.data} {recorded.more}"
    for command in ("penstock adopt --dry-run", "penstock adopt"):
        reader.places[f"{command} /var/lib/kafka"] = f"{command} {both}"
    reader.places["/var/lib/kafka"] = str(recorded.data)
    follow(reader, blocks)
    assert "orders" in reader.run("penstock topic list")


class Returning(Reader):
    """Somebody who starts the Kafka again that had the folder."""

    def __init__(self, folder: Path, kafka: KafkaPeer) -> None:
        super().__init__(folder)
        self.kafka = kafka
        self.places = {"/var/lib/kafka": str(kafka.data)}

    def other(self, block: Block) -> bool:
        if block.text != "kafka-server-start server.properties\n":
            return False
        self.kafka.start()
        return True


@pytest.mark.java
@pytest.mark.timeout(400)
@carries_out("how-to/moving.md", RETURNING)
def test_apache_kafka_serves_what_is_given_back(tmp_path: Path, blocks: Blocks) -> None:
    kafka = KafkaPeer({}, tmp_path, SMALL_JVM_OPTIONS)
    kafka.start()
    kafka.stop()
    reader = Returning(tmp_path, kafka)
    reader.run("penstock adopt /var/lib/kafka")
    reader.brokers.append(reader.serve("penstock serve --data /var/lib/kafka -c node.id=1"))
    reader.run("penstock topic create orders; seq 3 | penstock produce orders")
    reader.close()
    try:
        follow(reader, blocks)
        read = reader.run(f"penstock consume orders --from beginning --max 3 --bootstrap {kafka.bootstrap}")
        assert read == "1\n2\n3\n"
    finally:
        kafka.stop()


class Mover(Reader):
    """Somebody who mirrors one running broker into another."""

    endless = ("penstock mirror --from kafka",)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.source, self.target = f"127.0.0.1:{self.port}", f"127.0.0.1:{self.second_port}"
        self.places = {"kafka:9092": self.source, "penstock:9092": self.target}

    def other(self, block: Block) -> bool:
        if "kafka:9092" in block.text:  # two brokers that are there already
            self.brokers = [self.serve(f"penstock serve --data {each} --listen {at}") for each, at in self.both()]
            self.run(f"penstock topic create payments --bootstrap {self.source}")
            self.run(f"seq 10 | penstock produce payments --bootstrap {self.source}")
        return False

    def both(self) -> list[tuple[str, str]]:
        return [("source", self.source), ("copy", self.target)]

    def wait_for(self, started: subprocess.Popen[str], command: str) -> str:
        """Until everything is mirrored."""
        for _ in range(WAIT_SECONDS):
            shown = self.run(f"penstock mirror status --from {self.source} --to {self.target}; sleep 0.5")
            if "mirrored" in shown:
                return shown
            assert started.poll() is None, started.communicate()
        raise AssertionError(shown)


@pytest.mark.timeout(300)
@carries_out("how-to/moving.md", WITHOUT_A_STOP)
def test_a_broker_is_mirrored_while_it_runs(tmp_path: Path, blocks: Blocks) -> None:
    reader = Mover(tmp_path)
    try:
        follow(reader, blocks)
    finally:
        reader.close()
        reader.run("kill $(cat target.pid) 2>/dev/null || true")


@pytest.mark.spark
@pytest.mark.timeout(300)
@carries_out("how-to/moving.md", LARGE)
def test_a_broker_is_mirrored_with_spark(tmp_path: Path, blocks: Blocks) -> None:
    reader = Mover(tmp_path)
    reader.places["spark://spark:7077"] = "local[2]"
    try:
        follow(reader, blocks)
    finally:
        reader.close()
