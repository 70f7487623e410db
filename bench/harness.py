"""What a row of the benchmark is made of: a measurement, the targets it has to meet, and the tools to take it.

A row is a function from (bench, peer) to a `Measurement`. The runner calls it for the two brokers in turn, first once
to warm up and then three times, and compares the medians. To add a row, write the function in the module of its family
under bench/rows/ and put it in that module's ROWS. A row that needs brokers with other settings says how they are
started (`Row.on`); neighboring rows that say the same share them.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import statistics
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from bench.peers import Peer, PeerError

HERE = Path(__file__).parent
LOAD = HERE / "build" / "load"


@dataclass(frozen=True, slots=True)
class Measurement:
    """One round of one row on one broker: the headline value and whatever else belongs beside it."""

    value: float
    more: dict[str, float] = field(default_factory=dict)

    def metric(self, name: str) -> float:
        return self.value if name == "value" else self.more.get(name, math.nan)


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on a metric of Penstock: relative to Apache Kafka in the same run, or absolute."""

    bound: float
    at_least: bool = True
    relative: bool = True
    metric: str = "value"

    def meets(self, ours: float, theirs: float) -> bool:
        figure = ours / theirs if self.relative and theirs else ours
        return figure >= self.bound if self.at_least else figure <= self.bound

    def __str__(self) -> str:
        name = "" if self.metric == "value" else self.metric.removesuffix("_per_million").replace("_", " ") + " "
        return f"{name}{'≥' if self.at_least else '≤'} {self.bound:g}{'×' if self.relative else ''}"


def at_least(ratio: float, metric: str = "value") -> Target:
    return Target(ratio, metric=metric)


def at_most(ratio: float, metric: str = "value") -> Target:
    return Target(ratio, at_least=False, metric=metric)


def at_most_absolute(bound: float, metric: str = "value") -> Target:
    return Target(bound, at_least=False, relative=False, metric=metric)


def at_least_absolute(bound: float, metric: str = "value") -> Target:
    return Target(bound, relative=False, metric=metric)


Setup = Callable[[type[Peer]], AbstractContextManager[Peer]]
"""Starts a broker of this kind, and stops it afterwards."""

# A deleted topic's files go at once instead of after a minute, so that a round gives its page cache back to the next.
SETTINGS = {"log.segment.delete.delay.ms": "100"}


@contextmanager
def plain(kind: type[Peer]) -> Iterator[Peer]:
    """A broker without encryption and without users."""
    with kind(SETTINGS) as peer:
        yield peer


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    title: str
    unit: str
    measure: Callable[[Bench, Peer], Measurement]
    targets: tuple[Target, ...] = ()
    rounds: int = 3
    warm_up: bool = True
    on: Setup = plain


class Bench:
    """The tools of a row: scale, topics, the load program, CPU accounting."""

    def __init__(self, *, scale: float = 1.0) -> None:
        self.scale = scale
        self._admins: dict[str, AdminClient] = {}

    def count(self, full: int) -> int:
        """A number of messages, less of them in a quick run."""
        return max(min(full, 1000), int(full * self.scale))

    def admin(self, peer: Peer) -> AdminClient:
        if peer.bootstrap not in self._admins:
            options: dict[str, Any] = {**peer.admin_properties, "bootstrap.servers": peer.bootstrap, "log_level": 0}
            self._admins[peer.bootstrap] = AdminClient(options)
        return self._admins[peer.bootstrap]

    def forget(self, peer: Peer) -> None:
        self._admins.pop(peer.bootstrap, None)

    def set_config(self, peer: Peer, kind: ResourceType, name: str, config: str, value: str | None) -> None:
        """Set one config of a topic or group; None takes it back."""
        how = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        entry = ConfigEntry(config, value, incremental_operation=how)
        resource = ConfigResource(kind, name, incremental_configs=[entry])
        self.admin(peer).incremental_alter_configs([resource])[resource].result(60)

    @contextmanager
    def topic(self, peer: Peer, partitions: int = 1, config: Mapping[str, str] | None = None) -> Iterator[str]:
        """A fresh topic, deleted afterwards and its files with it.

        On a virtual machine the first touch of memory by the page cache is far slower than the second, whatever the
        broker; so each round gives its pages back before the next one starts.
        """
        name = f"bench-{uuid.uuid4().hex[:8]}"
        _wait_all(self.admin(peer).create_topics([NewTopic(name, partitions, 1, config=dict(config or {}))]))
        _until_led(self.admin(peer), name, partitions)
        try:
            yield name
        finally:
            _wait_all(self.admin(peer).delete_topics([name], operation_timeout=30))
            _until_gone(peer, name)

    def load(
        self,
        mode: str,
        peer: Peer,
        topic: str,
        messages: int,
        size: int,
        properties: Mapping[str, object],
        partitions: int = 1,
        clients: int = 1,
    ) -> Measurement:
        """Runs the load program; the value is messages per second, and the broker's CPU time stands beside it.

        With several clients each of them moves all the messages, at the same time.
        """
        arguments = [f"{name}={value}" for name, value in {**peer.client_properties, **properties}.items()]
        fixed = [f"bootstrap={peer.bootstrap}", f"topic={topic}", f"messages={messages}", f"size={size}"]
        command = [str(LOAD), mode, *fixed, f"partitions={partitions}", *arguments]
        cpu_before = peer.cpu_s()
        pipe = subprocess.PIPE
        running = [subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) for _ in range(clients)]
        outputs = [process.communicate(timeout=600) for process in running]
        cpu_s = peer.cpu_s() - cpu_before
        for process, (_, complaint) in zip(running, outputs, strict=True):
            if process.returncode:
                raise PeerError(f"load against {peer.name} failed: {complaint.strip()}")
        moved, seconds = messages * clients, max(json.loads(output)["seconds"] for output, _ in outputs)
        more = {
            "mb_per_s": moved * size / 1e6 / seconds,
            "cpu_s_per_million": cpu_s * 1e6 / moved,
            "cores": cpu_s / seconds,
        }
        return Measurement(moved / seconds, more)


def _wait_all(futures: Mapping[str, Future[object]]) -> None:
    for future in futures.values():
        future.result(60)


def _until_led(admin: AdminClient, topic: str, partitions: int, timeout_s: float = 60.0) -> None:
    """Waits until every partition has a leader, so that a measurement does not begin with retries."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = admin.list_topics(topic, timeout=10).topics[topic].partitions.values()
        if sum(partition.leader >= 0 for partition in found) == partitions:
            return
        time.sleep(0.02)
    raise PeerError(f"{topic} has no leaders after {timeout_s:.0f} s")


def _until_gone(peer: Peer, topic: str, timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and any(peer.folder.glob(f"data/**/{topic}*")):
        time.sleep(0.05)
    os.sync()


def build_load() -> None:
    """Compiles the load program, or says what is missing.

    librdkafka allocates every message it reads in one thread and frees it in another. With glibc's allocator the two
    wait for one lock, the more often the less the broker itself keeps a core busy: the row then measures that lock.
    So mimalloc is linked in where it is installed, for whatever broker is measured.
    """
    for tool, package in (("cc", "build-essential"), ("pkg-config", "pkg-config")):
        if shutil.which(tool) is None:
            raise PeerError(f"{tool} is missing: apt-get install {package} librdkafka-dev")
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "rdkafka"], capture_output=True, text=True)
    if flags.returncode:
        raise PeerError("librdkafka's headers are missing: apt-get install librdkafka-dev")
    source = HERE / "load.c"
    if LOAD.exists() and LOAD.stat().st_mtime > max(part.stat().st_mtime for part in (source, Path(__file__))):
        return
    LOAD.parent.mkdir(exist_ok=True)
    build = ["cc", "-O2", "-Wall", "-Wextra", "-o", str(LOAD), str(source), *flags.stdout.split()]
    if subprocess.run([*build, "-Wl,--no-as-needed", "-lmimalloc"], capture_output=True).returncode:
        print("bench: built without mimalloc, glibc's locks limit the client: apt-get install libmimalloc-dev")
        subprocess.run(build, check=True)


def median(rounds: Sequence[Measurement]) -> Measurement:
    """Median of each metric on its own."""
    names = rounds[0].more
    more = {name: statistics.median(r.more.get(name, math.nan) for r in rounds) for name in names}
    return Measurement(statistics.median(r.value for r in rounds), more)
