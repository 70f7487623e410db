"""What the storm blows on: brokers as processes, PostgreSQL and an S3 server, and a proxy on every way between them."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil
import psycopg

from penstock.certificates import create_certificates
from tests.broker.process import free_port
from tests.cluster.storm.leadership import Led, Loaded, leaderships
from tests.cluster.storm.proxy import Mode, Proxy
from tests.postgres import PostgresServer
from tests.seaweedfs import SeaweedServer

START_SECONDS = 90
_STOP_SECONDS = 60
DISK_BYTES = 256 << 20
STORE = "s3://bucket/storm"
_POSTGRES = ("-c shared_buffers=32MB", "-c max_connections=200", "-c track_commit_timestamp=on")
_LOADED = re.compile(
    r"^(\S+ \S+) DEBUG loaded the window of group '([^']+)' in (\S+)-(\d+) at offset \d+, leader epoch (\d+)$",
    re.MULTILINE,
)
# Every change of a leader, with the transaction that made it: PostgreSQL remembers when that was committed.
_RECORD_LEADERS = """
    CREATE SCHEMA record;
    CREATE TABLE record.change (
        number bigserial, topic_id bytea, partition_index integer, leader integer, leader_epoch integer
    );
    CREATE FUNCTION record.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO record.change (topic_id, partition_index, leader, leader_epoch)
        VALUES (NEW.topic_id, NEW.partition_index, NEW.leader, NEW.leader_epoch);
        RETURN NULL;
    END $$;
    CREATE TRIGGER note AFTER INSERT OR UPDATE OF leader, leader_epoch ON partition
        FOR EACH ROW EXECUTE FUNCTION record.note();
"""


class Node:
    """One broker. Its clients, its PostgreSQL, its store and the other brokers are behind proxies.

    Brokers log in with each other over TLS.
    """

    def __init__(self, number: int, stage: Stage) -> None:
        self.number = number
        self.name = f"broker-{number}"
        self.data = stage.folder / self.name
        self.output = stage.folder / f"{self.name}.log"
        self._stage = stage
        self._port, self._inner_port = free_port(), free_port()
        self.clients = Proxy(self._port)
        self.peers = Proxy(self._inner_port, stage.who)
        self.postgres = Proxy(stage.postgres.port)
        self.store = Proxy(stage.s3_port)
        self.process: subprocess.Popen[bytes] | None = None
        self.is_stopped = False
        self.has_disk = False

    @property
    def proxies(self) -> tuple[Proxy, ...]:
        return self.clients, self.peers, self.postgres, self.store

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def command(self) -> list[str]:
        stage = self._stage
        configs = {
            **stage.configs,
            "node.id": self.number,
            "listener.security.protocol.map": "CLIENTS:PLAINTEXT,PEERS:SASL_SSL",
            "inter.broker.listener.name": "PEERS",
            "listener.name.peers.ssl.client.auth": "required",
            **stage.certificates.broker_configs("listener.name.peers."),
        }
        command = [str(Path(sys.executable).with_name("penstock")), "serve", "--data", str(self.data)]
        command += [
            "--listen",
            f"CLIENTS://127.0.0.1:{self._port}",
            "--listen",
            f"PEERS://127.0.0.1:{self._inner_port}",
        ]
        command += ["--advertise", f"CLIENTS://127.0.0.1:{self.clients.port}"]
        command += ["--advertise", f"PEERS://127.0.0.1:{self.peers.port}"]
        command += ["--cluster", stage.postgres.url(stage.schema, self.postgres.port), "--store", STORE]
        for name, value in configs.items():
            command += ["-c", f"{name}={value}"]
        return command

    async def start(self) -> None:
        """Start the process, and again as a supervisor would while its place is taken, until it says that it serves.

        A broker that has lost its data folder has to wait until the lease of the one that it was before is over.
        """
        deadline = time.monotonic() + START_SECONDS
        while not await self._started(deadline):  # noqa: ASYNC110
            await asyncio.sleep(0.5)

    async def _started(self, deadline: float) -> bool:
        environment = {**os.environ, **self._stage.s3.environment}
        environment["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{self.store.port}"
        environment["PENSTOCK_LOG"] = "DEBUG"
        self.output.touch()
        at = self.output.stat().st_size
        self.process = subprocess.Popen(  # noqa: ASYNC220
            self.command(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
        )
        threading.Thread(target=self._keep_output, args=(self.process,)).start()
        for proxy in (self.clients, self.peers):
            await proxy.set(Mode.PASS)
        while True:
            said = self.output.read_bytes()[at:]
            if b" serves " in said:
                return True
            if self.process.poll() is not None:
                for proxy in (self.clients, self.peers):
                    await proxy.set(Mode.REFUSE)
                if b"is in use" in said and time.monotonic() < deadline:
                    return False
                raise BrokerDied(f"{self.name} did not start: {said[-2000:].decode()}")
            if time.monotonic() > deadline:
                raise BrokerDied(f"{self.name} did not say that it serves: {said[-2000:].decode()}")
            await asyncio.sleep(0.05)

    def _keep_output(self, process: subprocess.Popen[bytes]) -> None:
        """Through a pipe: a limit on the size of the broker's files is none on what it says."""
        assert process.stdout is not None
        with process.stdout as said, open(self.output, "ab", buffering=0) as output:
            for line in said:
                output.write(line)

    def windows(self, group: str, clock_ms: int) -> list[Loaded]:
        """The windows of a share group that it has loaded. `clock_ms` is added to the times of its log."""
        return [
            Loaded((topic, int(index)), self.number, _milliseconds(at) + clock_ms, int(epoch))
            for at, of, topic, index, epoch in _LOADED.findall(self.output.read_text(errors="replace"))
            if of == group
        ]

    async def end(self, number: int) -> int:
        """SIGKILL or SIGTERM; returns the exit status. Whoever connects afterwards is refused, as by the kernel."""
        assert self.process is not None
        self.process.send_signal(number)
        return await self._ended()

    async def drain(self) -> int:
        """`penstock cluster drain`; returns the exit status of the broker.

        Repeated while it is refused: after the fault before, the broker may have to register anew first.
        """
        deadline = time.monotonic() + START_SECONDS
        while (done := await asyncio.to_thread(self._stage.administer, "drain", str(self.number))).returncode:
            if time.monotonic() > deadline:
                raise BrokerDied(f"{self.name} is not drained: {done.stderr}")
            await asyncio.sleep(0.5)
        return await self._ended()

    async def _ended(self) -> int:
        assert self.process is not None
        process, self.process = self.process, None
        try:
            status = await asyncio.to_thread(process.wait, _STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise BrokerDied(f"{self.name} did not end within {_STOP_SECONDS} s") from None
        for proxy in (self.clients, self.peers):
            await proxy.set(Mode.REFUSE)
        return status

    def pause(self) -> str:
        """SIGSTOP; returns the state of the process that the kernel reports."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        self.is_stopped = True
        until = time.monotonic() + 5
        process = psutil.Process(self.process.pid)
        while (state := str(process.status())) != psutil.STATUS_STOPPED and time.monotonic() < until:
            time.sleep(0.005)
        return state

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)
        self.is_stopped = False

    def mount(self) -> None:
        """Give the broker a small disk of its own, if this user may."""
        self.data.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "storm", str(self.data)], capture_output=True
        )
        self.has_disk = done.returncode == 0

    def unmount(self) -> None:
        if self.has_disk:
            subprocess.run(["umount", "-l", str(self.data)], capture_output=True)


class BrokerDied(AssertionError):
    """A broker ended, or did not start, though nothing was done to it that should have that effect."""


class Stage:
    """`async with Stage(folder, brokers=3)`: everything runs, and the brokers take clients."""

    def __init__(self, folder: Path, brokers: int, configs: Mapping[str, object]) -> None:
        self.folder = folder
        self.configs = dict(configs)
        self.postgres = PostgresServer(*_POSTGRES)
        self.s3 = SeaweedServer()
        self.certificates = create_certificates(folder / "tls", ["127.0.0.1"])
        self.schema = "storm"
        self._brokers = brokers
        self.nodes: list[Node] = []
        self._undo = AsyncExitStack()

    @property
    def s3_port(self) -> int:
        return int(self.s3.environment["AWS_ENDPOINT_URL"].rpartition(":")[2])

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{node.clients.port}" for node in self.nodes)

    def who(self, port: int) -> str | None:
        """Which broker has made the connection from this port."""
        for node in self.nodes:
            if node.process is None or node.process.poll() is not None:
                continue
            try:
                made = psutil.Process(node.process.pid).net_connections("tcp4")
            except psutil.Error:
                continue
            if any(each.laddr and each.laddr.port == port for each in made):
                return node.name
        return None

    async def __aenter__(self) -> Self:
        try:
            await asyncio.to_thread(self.postgres.__enter__)
            self._undo.callback(self.postgres.__exit__, None, None, None)
            await asyncio.to_thread(self.s3.__enter__)
            self._undo.callback(self.s3.__exit__, None, None, None)
            self.nodes = [Node(number, self) for number in range(1, self._brokers + 1)]
            for node in self.nodes:
                for proxy in node.proxies:
                    await proxy.start()
                    self._undo.push_async_callback(proxy.stop)
                node.mount()
                self._undo.callback(node.unmount)
            self._undo.push_async_callback(self._end_brokers)
            await self.nodes[0].start()
            await asyncio.gather(*(node.start() for node in self.nodes[1:]))
            self.ask_postgres(_RECORD_LEADERS)
        except BaseException:
            await self._undo.aclose()
            raise
        return self

    async def _end_brokers(self) -> None:
        for node in self.nodes:
            if node.process is not None:
                node.process.kill()
                await asyncio.to_thread(node.process.wait)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._undo.aclose()

    def ask_postgres(self, statement: str) -> list[tuple[Any, ...]]:
        """Straight, without a proxy."""
        with psycopg.connect(self.postgres.url(), autocommit=True, connect_timeout=10) as connection:
            connection.execute(f"SET search_path = {self.schema}")
            done = connection.execute(statement)
            return list(done.fetchall()) if done.description else []

    def administer(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`penstock cluster …`, straight, without a proxy."""
        command = [str(Path(sys.executable).with_name("penstock")), "cluster", *arguments]
        command += ["--cluster", self.postgres.url(self.schema)]
        return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **self.s3.environment})

    def leaders(self, topics: Mapping[bytes, str], clock_ms: int) -> list[Led]:
        """Who has led which partitions, and when, by the commits of the changes."""
        changes = self.ask_postgres(
            """
            SELECT topic_id, partition_index, leader, leader_epoch,
                extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000
            FROM record.change ORDER BY number
            """
        )
        return leaderships(
            ((topics[topic_id], index), leader, epoch, float(at_ms) + clock_ms)
            for topic_id, index, leader, epoch, at_ms in changes
            if topic_id in topics
        )


def _milliseconds(logged: str) -> float:
    """A time of a broker's log, since the epoch."""
    return datetime.strptime(logged, "%Y-%m-%d %H:%M:%S,%f").timestamp() * 1000
