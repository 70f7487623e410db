"""A queue under fire: consumers that crash, pause and fail, a broker that is killed; and what they saw is checked."""

from __future__ import annotations

import random
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import pytest

from penstock.wire import messages as m
from penstock.wire.api import ApiKey
from tests.broker.share.share_client import ShareMember, Wire, ack_errors, acquired, initialize, produce, topic_id
from tests.queues.history import Answer, Delivery, History

LOCK_SECONDS = 1.0
GROUP, TOPIC = "workers", "jobs"
ACCEPT, RELEASE, REJECT = 1, 2, 3
KINDS = {ACCEPT: "accept", RELEASE: "release", REJECT: "reject"}


class Server:
    """`penstock serve` as a process that can be killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = int(probe.getsockname()[1])
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        configs = {
            "group.share.record.lock.duration.ms": 1000,
            "group.share.min.record.lock.duration.ms": 1000,
            "share.coordinator.state.topic.num.partitions": 4,
            "share.coordinator.snapshot.update.records.per.snapshot": 20,
        }
        options = [word for name, value in configs.items() for word in ("-c", f"{name}={value}")]
        command = [sys.executable, "-m", "penstock.cli.main", "serve", "--data", str(self.folder)]
        self.process = subprocess.Popen(
            [*command, "--listen", f"127.0.0.1:{self.port}", *options], stdout=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.02)
        raise TimeoutError("the broker did not start")

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(20)


class Worker(threading.Thread):
    """A consumer that mostly does its work, and sometimes releases, rejects, falls asleep or drops dead."""

    def __init__(self, server: Server, history: History, topic: bytes, seed: int, done: threading.Event) -> None:
        super().__init__(daemon=True)
        self.server, self.history, self.topic, self.done = server, history, topic, done
        self.random = random.Random(seed)

    def run(self) -> None:
        while not self.done.is_set():
            try:
                with Wire(self.server) as wire:  # type: ignore[arg-type]
                    self._live(ShareMember(wire, GROUP, uuid.uuid4().hex, self.topic))
            except OSError:
                time.sleep(0.02)

    def _live(self, member: ShareMember) -> None:
        try:
            while not self.done.is_set():
                asked_at = time.monotonic()
                response = member.fetch(max_records=self.random.randint(1, 20), max_wait_ms=100)
                if response.error_code:
                    return
                got_at = time.monotonic()
                ranges = acquired(response)
                for first, last, count in ranges:
                    for offset in range(first, last + 1):
                        self.history.deliveries.append(Delivery(offset, member.member_id, asked_at, got_at, count))
                if ranges and not self._work(member, ranges):
                    return
        finally:
            self.history.ends.append((member.member_id, time.monotonic()))

    def _work(self, member: ShareMember, ranges: list[tuple[int, int, int]]) -> bool:
        mood = self.random.random()
        if mood < 0.03:
            return False  # drops dead: the connection is closed with records in hand
        if mood < 0.06:
            self.done.wait(LOCK_SECONDS * 1.3)  # sleeps through its locks
        for first, last, _ in ranges:
            kinds = [
                self.random.choices([ACCEPT, RELEASE, REJECT], [0.85, 0.12, 0.03])[0] for _ in range(first, last + 1)
            ]
            sent_at = time.monotonic()
            try:
                codes = ack_errors(member.acknowledge({0: [(first, last, kinds)]}))
                confirmed: bool | None = codes == [0]
            except OSError:
                confirmed = None
            told_at = time.monotonic()
            for offset, kind in zip(range(first, last + 1), kinds, strict=True):
                answer = Answer(offset, member.member_id, KINDS[kind], sent_at, told_at, confirmed)
                self.history.answers.append(answer)
            if confirmed is None:
                return False
        return True


def standing(wire: Wire) -> tuple[int, int]:
    """Start offset and lag."""
    request = m.DescribeShareGroupOffsetsRequest
    body = request(
        groups=[
            request.DescribeShareGroupOffsetsRequestGroup(
                group_id=GROUP,
                topics=[request.DescribeShareGroupOffsetsRequestTopic(topic_name=TOPIC, partitions=[0])],
            )
        ]
    )
    response = wire.ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, body, m.DescribeShareGroupOffsetsResponse)
    partition = response.groups[0].topics[0].partitions[0]
    return partition.start_offset, partition.lag


def look(server: Server, history: History) -> int:
    """Write down the start offset; returns the lag, or -1 while it is not known."""
    try:
        with Wire(server) as wire:  # type: ignore[arg-type]
            start_offset, lag = standing(wire)
    except (OSError, IndexError):
        return -1
    if start_offset >= 0:
        history.start_offsets.append(start_offset)
    return lag


def run_under_fire(folder: Path, records: int, workers: int, kills: int, seconds_between_kills: float) -> History:
    server = Server(folder)
    history = History(LOCK_SECONDS, delivery_count_limit=5)
    done = threading.Event()
    crew: list[Worker] = []
    server.start()
    try:
        with Wire(server) as wire:  # type: ignore[arg-type]
            create = m.CreateTopicsRequest(
                topics=[m.CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)]
            )
            wire.ask(ApiKey.CREATE_TOPICS, 7, create, m.CreateTopicsResponse)
            topic = topic_id(wire, TOPIC)
            produce(wire, TOPIC, [b"%d" % i for i in range(records)], batch_size=records // 10)
            assert initialize(wire, GROUP, topic) == [0]
        crew = [Worker(server, history, topic, seed, done) for seed in range(workers)]
        for worker in crew:
            worker.start()
        for _ in range(kills):
            until = time.monotonic() + seconds_between_kills
            while time.monotonic() < until:
                look(server, history)
                time.sleep(0.05)
            history.kills.append(time.monotonic())
            server.kill()
            server.start()
        drain(server, history)
    finally:
        done.set()
        for worker in crew:
            worker.join(20)
        server.stop()
    return history


def drain(server: Server, history: History) -> None:
    """Wait until nothing is left; to stand still for a minute is a fault."""
    reached, since = -1, time.monotonic()
    while look(server, history) != 0:
        if history.start_offsets[-1] > reached:
            reached, since = history.start_offsets[-1], time.monotonic()
        assert time.monotonic() - since < 60, f"the queue stands still at offset {reached}"
        time.sleep(0.1)


def test_every_record_ends_once_although_consumers_and_broker_die(tmp_path: Path) -> None:
    history = run_under_fire(tmp_path, records=3_000, workers=6, kills=2, seconds_between_kills=1.0)
    assert history.faults(3_000) == []
    assert any(answer.confirmed is False for answer in history.answers) or len(history.kills) == 2


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_record_ends_once_in_a_long_war(tmp_path: Path) -> None:
    history = run_under_fire(tmp_path, records=40_000, workers=12, kills=20, seconds_between_kills=4.0)
    assert history.faults(40_000) == []
