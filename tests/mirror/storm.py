"""Two brokers under load and a mirror between them, each killed at random (SIGKILL) and started again; then a cut-over.

Producers, transactions and groups run at the source all along. After the cut-over an independent reader
(confluent-kafka) reads both sides from the beginning. What the source has the target must have, at the same offsets;
each record that was acknowledged is there once; groups go on exactly where they were.

    python -m tests.mirror.storm --seconds 60 --from kafka --to penstock --seed 7
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from confluent_kafka import Consumer as Judge
from confluent_kafka import KafkaError as JudgeError
from confluent_kafka import TopicPartition as JudgePartition

from bench.peers import SMALL_JVM_OPTIONS, KafkaPeer, Peer, PenstockPeer
from penstock.client import Admin, Consumer, Producer, TopicPartition
from penstock.wire.errors import KafkaError

SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "auto.create.topics.enable": "false",
}
TOPICS = {"plain": 3, "paid": 2}
PATIENT = {
    "retry_backoff_ms": 20,
    "retry_backoff_max_ms": 200,
    "request_timeout_ms": 5_000,
    "delivery_timeout_ms": 120_000,
}
CUT_OVER_S = 240
WORTH_JUDGING = 200
KILLS_MIN = 3
"""So many acknowledged records and kills make a storm, however long they take."""

Seen = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""Offset, timestamp, key, value and headers of a record."""


@dataclass(slots=True)
class Load:
    """What programs at the source did."""

    acknowledged: dict[bytes, tuple[str, int, int]] = field(default_factory=dict)
    committed: list[list[bytes]] = field(default_factory=list)
    aborted: set[bytes] = field(default_factory=set)
    positions: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    """What each group's last successful commit was."""
    stops: asyncio.Event = field(default_factory=asyncio.Event)
    readers_stop: asyncio.Event = field(default_factory=asyncio.Event)


class MirrorProcess:
    """`penstock mirror`, started again when it was killed or has ended by itself."""

    def __init__(self, source: str, target: str, output: Path) -> None:
        self._arguments = ["--from", source, "--to", target]
        self._output = output
        self._process: subprocess.Popen[bytes] | None = None
        self.ended_itself = 0

    def start(self) -> None:
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "penstock.cli.main", "mirror", "--json", *self._arguments],
                stdout=output,
                stderr=output,
            )

    def kill_and_start(self) -> None:
        self.stop()
        self.start()

    def stop(self) -> None:
        if self._process is not None:
            if self._process.poll() is not None:
                self.ended_itself += 1
                print("ended by itself:", self._output.read_text()[-600:], file=sys.stderr)
            self._process.kill()
            self._process.wait(30)

    def wait_until_ready(self) -> None:
        """Return once this very process says that it copies."""
        assert self._process is not None
        begin = self._output.stat().st_size
        deadline = time.monotonic() + 60
        while b'"ready": true' not in self._output.read_bytes()[begin:]:
            assert self._process.poll() is None, self._output.read_text()[-2000:]
            assert time.monotonic() < deadline, self._output.read_text()[-2000:]
            time.sleep(0.05)

    def wait(self) -> int:
        assert self._process is not None
        return self._process.wait(30)

    def cut_over(self, *more: str, timeout: float = CUT_OVER_S) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "penstock.cli.main", "mirror", "cut-over", "--json", "--compare", "0"]
        command += ["--still-for", "0.5", "--timeout", "120", *more, *self._arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


# Load


async def produce(address: str, load: Load, pause_s: float) -> None:
    """Records of one idempotent producer; each is noted when it is acknowledged."""
    number = 0
    async with Producer({"bootstrap.servers": address, "batch.size": 2000, "linger.ms": 1, **PATIENT}) as producer:

        async def send(value: bytes) -> None:
            sent = await producer.send("plain", value, key=value[-2:], headers=[("n", value), ("none", None)])
            result = await sent
            load.acknowledged[value] = (result.topic, result.partition, result.offset)

        waiting: set[asyncio.Task[None]] = set()
        while not load.stops.is_set():
            waiting.add(asyncio.create_task(send(b"plain %d" % number)))
            number += 1
            if len(waiting) >= 100:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            if number % 10 == 0:
                await asyncio.sleep(pause_s)
        await asyncio.gather(*waiting)


async def transact(address: str, load: Load, pause_s: float, seed: int) -> None:
    """Transactions, one in five of which is aborted. One whose outcome is unknown is not judged."""
    chance = random.Random(seed)
    number = 0
    while not load.stops.is_set():
        settings = {"bootstrap.servers": address, "transactional.id": "paid", "linger.ms": 0, **PATIENT}
        with contextlib.suppress(KafkaError):
            async with Producer(settings) as producer:
                while not load.stops.is_set():
                    values = [b"paid %d" % (number + each) for each in range(chance.randint(1, 6))]
                    number += len(values)
                    commits = chance.random() > 0.2
                    try:
                        async with producer.transaction():
                            for value in values:
                                await producer.send("paid", value, partition=number % 2)
                            if not commits:
                                raise _Abort
                    except _Abort:
                        load.aborted.update(values)
                    else:
                        load.committed.append(values)
                    await asyncio.sleep(pause_s)


class _Abort(Exception):
    pass


async def consume(address: str, load: Load, group: str, protocol: str) -> None:
    """A group that reads and commits, and stops in the middle."""
    load.positions[group] = {}
    while not load.readers_stop.is_set():
        with contextlib.suppress(KafkaError):
            async with Consumer(**reader_settings(address, group, protocol)) as consumer:
                consumer.subscribe(list(TOPICS))
                while not load.readers_stop.is_set():
                    records = await consumer.poll(max_records=50, timeout_ms=200)
                    if records:
                        await consumer.commit()
                        for record in records:
                            load.positions[group][record.topic_partition] = record.offset + 1


def reader_settings(address: str, group: str, protocol: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": address,
        "group_id": group,
        "group_protocol": protocol,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "isolation_level": "read_committed",
        "session_timeout_ms": 3_000 if protocol == "classic" else 45_000,
        "default_api_timeout_ms": 5_000,
        "request_timeout_ms": 5_000,
        "allow_auto_create_topics": False,
    }


# Judging


def read_all(address: str, topic: str, partitions: int) -> dict[int, list[Seen]]:
    """Every committed record of a topic."""
    judge = Judge(
        {
            "bootstrap.servers": address,
            "group.id": "judge",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 20,
        }
    )
    found: dict[int, list[Seen]] = {number: [] for number in range(partitions)}
    left = set(found)
    try:
        low = {number: judge.get_watermark_offsets(JudgePartition(topic, number), timeout=30)[0] for number in found}
        judge.assign([JudgePartition(topic, number, low[number]) for number in found])
        deadline = time.monotonic() + 120
        while left and time.monotonic() < deadline:
            message = judge.poll(1.0)
            if message is None:
                continue
            error, number, offset = message.error(), message.partition(), message.offset()
            assert number is not None
            if error:
                if error.code() != JudgeError._PARTITION_EOF:
                    raise AssertionError(str(error))
                left.discard(number)
                continue
            assert offset is not None
            found[number].append(
                (
                    offset,
                    message.timestamp()[1],
                    message.key(),
                    message.value(),
                    tuple(cast("list[tuple[str, bytes | None]]", message.headers() or [])),
                )
            )
    finally:
        judge.close()
    assert not left, f"{topic} was not read to its end: {left}"
    return found


def judge_records(source: str, target: str, load: Load) -> dict[str, int]:
    """Compare both sides, and the target with what was acknowledged; returns counts."""
    counts: dict[str, int] = {}
    for topic, partitions in TOPICS.items():
        theirs, ours = read_all(source, topic, partitions), read_all(target, topic, partitions)
        assert ours == theirs, f"{topic} differs"
        counts[topic] = sum(map(len, ours.values()))
        values = [record[3] for records in ours.values() for record in records]
        assert len(values) == len(set(values)), f"{topic} has records twice"
        if topic == "plain":
            places = {record[3]: (topic, number, record[0]) for number, records in ours.items() for record in records}
            for value, place in load.acknowledged.items():
                assert places.get(value) == place, (
                    f"{value!r} was acknowledged at {place}, and is at {places.get(value)}"
                )
        else:
            there = set(values)
            assert not there & load.aborted, "an aborted record is there"
            for batch in load.committed:
                assert there.issuperset(batch), f"a committed transaction is missing: {batch}"
    counts["acknowledged"] = len(load.acknowledged)
    counts["committed"] = len(load.committed)
    return counts


async def judge_groups(source: str, target: str, load: Load) -> int:
    """Each group goes on at the target with the very next record; returns how many records it still had to read."""
    more = 0
    async with Admin(bootstrap_servers=source) as before, Admin(bootstrap_servers=target) as after:
        for group, protocol in GROUPS.items():
            theirs = {tp: at.offset for tp, at in (await before.list_group_offsets(group)).items()}
            ours = {tp: at.offset for tp, at in (await after.list_group_offsets(group)).items()}
            assert ours == theirs, f"group {group}: {ours} is not {theirs}"
            for tp, position in load.positions[group].items():
                assert ours[tp] >= position, f"group {group} went back from {position} to {ours[tp]} in {tp}"
            more += await _go_on(target, group, protocol, ours)
    return more


async def _go_on(target: str, group: str, protocol: str, committed: dict[TopicPartition, int]) -> int:
    expected = {
        (topic, number, record[0])
        for topic, partitions in TOPICS.items()
        for number, records in read_all(target, topic, partitions).items()
        for record in records
        if record[0] >= committed.get(TopicPartition(topic, number), 0)
    }
    seen: list[tuple[str, int, int]] = []
    async with Consumer(**reader_settings(target, group, protocol)) as consumer:
        consumer.subscribe(list(TOPICS))
        async with asyncio.timeout(60):
            while len(seen) < len(expected):
                seen += [(r.topic, r.partition, r.offset) for r in await consumer.poll(timeout_ms=500)]
        seen += [(r.topic, r.partition, r.offset) for r in await consumer.poll(timeout_ms=100)]
    assert len(seen) == len(set(seen)), f"group {group} got records twice"
    assert set(seen) == expected, f"group {group} did not get what it had not read"
    return len(seen)


GROUPS = {"readers": "classic", "modern": "consumer"}

# The storm


@dataclass(slots=True)
class Report:
    kills: dict[str, int]
    counts: dict[str, int]
    read_after: int
    """Records that groups still had to read, and read, at the target."""


def peer_of(kind: str, folder: Path) -> Peer:
    folder.mkdir()
    if kind == "kafka":
        return KafkaPeer(SETTINGS, folder, SMALL_JVM_OPTIONS)
    return PenstockPeer(SETTINGS, folder)


@contextlib.asynccontextmanager
async def running(peer: Peer, pool: ThreadPoolExecutor) -> AsyncIterator[Peer]:
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(pool, peer.start)
    try:
        yield peer
    finally:
        await loop.run_in_executor(pool, peer.stop)


async def storm(
    folder: Path, *, source: str, target: str, seconds: float, seed: int, pause_s: float = 0.01, every_s: float = 0.7
) -> Report:
    chance = random.Random(seed)
    loop = asyncio.get_running_loop()
    kills = {"source": 0, "target": 0, "mirror": 0, "cut-over": 0}
    # A child ends with the thread that started it, so the brokers have a thread that lives as long as they do.
    with ThreadPoolExecutor(1) as pool:
        async with (
            running(peer_of(source, folder / "source"), pool) as theirs,
            running(peer_of(target, folder / "target"), pool) as ours,
        ):
            peers = {"source": theirs, "target": ours}
            async with Admin(bootstrap_servers=theirs.bootstrap) as admin:
                for topic, partitions in TOPICS.items():
                    await admin.create_topic(topic, partitions, configs={"retention.ms": "86400000"})
            load = Load()
            work = [
                asyncio.create_task(produce(theirs.bootstrap, load, pause_s)),
                asyncio.create_task(transact(theirs.bootstrap, load, pause_s * 2, seed)),
            ]
            readers = [
                asyncio.create_task(consume(theirs.bootstrap, load, group, protocol))
                for group, protocol in GROUPS.items()
            ]
            mirror = MirrorProcess(theirs.bootstrap, ours.bootstrap, folder / "mirror.out")
            mirror.start()
            victims: list[str] = []
            try:
                end = loop.time() + seconds
                while (left := end - loop.time()) > 0 or sum(kills.values()) < KILLS_MIN:
                    await asyncio.sleep(max(min(chance.uniform(0.3, 1.7) * every_s, left), 0.1))
                    for task in (*work, *readers):
                        if task.done():
                            task.result()
                    if left < seconds / 3:
                        load.readers_stop.set()
                    if not victims:
                        victims = ["source", "target", "mirror", "mirror"]
                        chance.shuffle(victims)
                    victim = victims.pop()
                    kills[victim] += 1
                    if victim == "mirror":
                        await asyncio.to_thread(mirror.kill_and_start)
                    else:
                        await loop.run_in_executor(pool, _kill_and_start, peers[victim])
                load.readers_stop.set()
                await asyncio.gather(*readers)
                while len(load.acknowledged) < WORTH_JUDGING and not work[0].done():  # noqa: ASYNC110 - on a busy machine
                    await asyncio.sleep(0.1)
                load.stops.set()
                await asyncio.gather(*work)
                await _wait_without_members(theirs.bootstrap)
                assert mirror.ended_itself == 0, "the mirror did not wait troubles out"
                with contextlib.suppress(subprocess.TimeoutExpired):  # a cut-over may be killed too
                    await asyncio.to_thread(mirror.cut_over, "--still-for", "30", timeout=1.5)
                kills["cut-over"] += 1
                await asyncio.to_thread(mirror.kill_and_start)
                await asyncio.to_thread(mirror.wait_until_ready)
                done = await asyncio.to_thread(mirror.cut_over)
                assert done.returncode == 0, f"{done.stdout}{done.stderr}{(folder / 'mirror.out').read_text()[-2000:]}"
                assert json.loads(done.stdout)["cut_over"]
                assert await asyncio.to_thread(mirror.wait) == 1, "the mirror was not taken over"
            finally:
                mirror.stop()
                for task in (*work, *readers):
                    task.cancel()
                await asyncio.gather(*work, *readers, return_exceptions=True)
            counts = await asyncio.to_thread(judge_records, theirs.bootstrap, ours.bootstrap, load)
            read_after = await judge_groups(theirs.bootstrap, ours.bootstrap, load)
    return Report(kills, counts, read_after)


def _kill_and_start(peer: Peer) -> None:
    peer.stop(kill=True)
    peer.start()


async def _wait_without_members(address: str) -> None:
    """A member whose leaving was lost stays until its session ends."""
    async with Admin(bootstrap_servers=address) as admin, asyncio.timeout(90):
        while any(group.state != "Empty" for group in await admin.list_groups()):  # noqa: ASYNC110
            await asyncio.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--from", dest="source", choices=["kafka", "penstock"], default="penstock")
    parser.add_argument("--to", dest="target", choices=["kafka", "penstock"], default="penstock")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=float, default=0.7)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mirror-storm-") as folder:
        print(
            asyncio.run(
                storm(
                    Path(folder),
                    source=arguments.source,
                    target=arguments.target,
                    seconds=arguments.seconds,
                    seed=arguments.seed,
                    every_s=arguments.every,
                )
            )
        )


if __name__ == "__main__":
    main()
