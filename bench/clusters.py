"""Clusters that `bench.cluster` compares: Penstock over PostgreSQL and an S3 server, and Apache Kafka with three nodes.

Each node is a process that can be killed, stopped and started again by its number. Node ids begin at 1.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg

from bench.network import CutOff, group_of
from bench.peers import (
    CLUSTER_ID,
    HOST,
    SHIPPED_JVM_OPTIONS,
    START_TIMEOUT_S,
    PeerError,
    answers_api_versions,
    die_with_parent,
    free_port,
    java_command,
)
from tests.postgres import PostgresServer
from tests.seaweedfs import SeaweedServer

STORE = "s3://bucket/bench"


class Cluster:
    """Subclasses say how a node is started."""

    name = "cluster"

    def __init__(self, nodes: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"bench-{self.name}-", dir=os.environ.get("PENSTOCK_BENCH_DIR")))
        self.ports = {number: free_port() for number in range(1, nodes + 1)}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._undo = ExitStack()
        self._cut_off: CutOff | None = None

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self.ports.values())

    def environment(self) -> Mapping[str, str]:
        return os.environ

    def command(self, number: int) -> list[str]:
        raise PeerError(f"{type(self).__name__} does not say how a node is started")

    def prepare(self) -> None:
        """What is done once before the first start."""

    def __enter__(self) -> Self:
        self._undo.callback(shutil.rmtree, self.folder, ignore_errors=True)
        try:
            self.prepare()
            self._undo.callback(self._end)
            for number in self.ports:
                self.launch(number)
            for number in self.ports:
                self.await_node(number)
        except BaseException:
            self._undo.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()

    def launch(self, number: int) -> None:
        with open(self.folder / f"node-{number}.out", "ab") as output:
            self._processes[number] = subprocess.Popen(
                self.command(number),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(self.environment()),
                group=group_of(number),
                preexec_fn=die_with_parent,
            )

    def await_node(self, number: int) -> None:
        deadline = time.monotonic() + 2 * START_TIMEOUT_S
        while not answers_api_versions(self.ports[number]):
            process = self._processes[number]
            if process.poll() is not None or time.monotonic() > deadline:
                tail = (self.folder / f"node-{number}.out").read_text(errors="replace")[-2000:]
                raise PeerError(f"node {number} of {self.name} does not answer:\n{tail}")
            time.sleep(0.05)

    def send(self, number: int, what: int) -> None:
        self._processes[number].send_signal(what)

    def await_end(self, number: int) -> None:
        self._processes[number].wait(2 * START_TIMEOUT_S)

    def inner_ports(self, number: int) -> list[int]:
        """Where the other nodes reach a node."""
        return [self.ports[number]]

    def shared_ports(self) -> list[int]:
        """What every node needs besides the others."""
        return []

    def cut_off(self, number: int) -> None:
        """Clients reach the node, and it reaches nobody: packets are swallowed."""
        self._cut_off = CutOff(number, {each: self.inner_ports(each) for each in self.ports}, self.shared_ports())

    def recover(self, number: int) -> None:
        """A node that was killed, stopped or cut off is up again."""
        self._heal()
        process = self._processes[number]
        process.send_signal(signal.SIGCONT)
        time.sleep(0.5)
        if process.poll() is not None:
            self.launch(number)
        self.await_node(number)

    def _heal(self) -> None:
        if self._cut_off is not None:
            self._cut_off.heal()
            self._cut_off = None

    def _end(self) -> None:
        self._heal()
        for process in self._processes.values():
            process.kill()
            process.wait()


class PenstockCluster(Cluster):
    name = "penstock"

    def __init__(self, nodes: int, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(nodes)
        self.settings = dict(settings or {})
        self.metrics = {number: free_port() for number in self.ports}
        self.postgres = PostgresServer("-c max_connections=200")
        self.s3 = SeaweedServer()

    def prepare(self) -> None:
        self._undo.enter_context(self.postgres)
        self._undo.enter_context(self.s3)

    def environment(self) -> Mapping[str, str]:
        return {**os.environ, **self.s3.environment}

    def data(self, number: int) -> Path:
        return self.folder / f"data-{number}"

    def command(self, number: int) -> list[str]:
        settings = {
            "node.id": str(number),
            "penstock.metrics.listen": f"{HOST}:{self.metrics[number]}",
            "log.segment.bytes": str(16 << 20),
            **self.settings,
        }
        command = [str(Path(sys.executable).parent / "penstock"), "serve", "--data", str(self.data(number))]
        command += ["--listen", f"{HOST}:{self.ports[number]}", "--cluster", self.postgres.url("bench")]
        command += ["--store", STORE]
        return [*command, *(part for name, value in settings.items() for part in ("-c", f"{name}={value}"))]

    def shared_ports(self) -> list[int]:
        return [self.postgres.port]

    def drain(self, number: int) -> None:
        """Have the node hand over and stop; it does so while this returns."""
        command = [str(Path(sys.executable).parent / "penstock"), "cluster", "drain", str(number)]
        command += ["--cluster", self.postgres.url("bench")]
        self._undo.callback(subprocess.Popen(command, stdout=subprocess.DEVNULL).wait)

    def figures(self) -> dict[str, float]:
        """What the brokers count of the store, and what PostgreSQL counts of its transactions, in all."""
        found: dict[str, float] = {}
        for port in self.metrics.values():
            with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=60) as answer:
                lines = answer.read().decode().splitlines()
            for line in lines:
                if line.startswith("penstock_store_"):
                    name, _, value = line.rpartition(" ")
                    name = name.removeprefix("penstock_store_")
                    found[name] = found.get(name, 0.0) + float(value)
        with psycopg.connect(self.postgres.url(), autocommit=True) as connection:
            row = connection.execute("SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database").fetchone()
        found["postgres_transactions"] = float(row[0]) if row is not None else 0.0
        return found


class KafkaCluster(Cluster):
    """Nodes that are broker and controller; three replicas of everything, two of which have to be in sync."""

    name = "kafka"

    def __init__(self, nodes: int = 3) -> None:
        super().__init__(nodes)
        self._controllers = {number: free_port() for number in self.ports}

    def prepare(self) -> None:
        voters = ",".join(f"{number}@{HOST}:{port}" for number, port in self._controllers.items())
        for number, port in self.ports.items():
            settings = {
                "process.roles": "broker,controller",
                "node.id": number,
                "controller.quorum.voters": voters,
                "controller.listener.names": "CONTROLLER",
                "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{self._controllers[number]}",
                "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
                "inter.broker.listener.name": "PLAINTEXT",
                "log.dirs": self.folder / f"data-{number}",
                "default.replication.factor": 3,
                "min.insync.replicas": 2,
                "offsets.topic.replication.factor": 3,
                "transaction.state.log.replication.factor": 3,
                "transaction.state.log.min.isr": 2,
                "share.coordinator.state.topic.replication.factor": 3,
                "share.coordinator.state.topic.min.isr": 2,
            }
            path = self._properties(number)
            path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
            command = java_command("-XX:TieredStopAtLevel=1")
            command += ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(path)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise PeerError(f"formatting Kafka's folder failed:\n{done.stdout}{done.stderr}")

    def _properties(self, number: int) -> Path:
        return self.folder / f"server-{number}.properties"

    def await_end(self, number: int) -> None:
        self._processes[number].wait(2 * START_TIMEOUT_S)

    def inner_ports(self, number: int) -> list[int]:
        return [self.ports[number], self._controllers[number]]

    def command(self, number: int) -> list[str]:
        return [*java_command(*SHIPPED_JVM_OPTIONS), "kafka.Kafka", str(self._properties(number))]
