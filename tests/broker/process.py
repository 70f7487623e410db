"""A broker as a process of its own, to be killed, starved and looked at from outside."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from bench.peers import free_ports

WAIT_SECONDS = 30


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class BrokerProcess:
    """`penstock serve` on a port and a folder that it keeps when it is started again."""

    def __init__(
        self,
        data: Path,
        *,
        cluster: str | None = None,
        store: str | None = None,
        brokers: int | None = None,
        file_size_limit: int | None = None,
        **configs: object,
    ) -> None:
        self.data = data
        self.store = store
        self.cluster = cluster
        self.brokers = brokers
        self.port = free_port() if brokers is None else free_ports(brokers)
        self.configs = {name.replace("_", "."): value for name, value in configs.items()}
        self.file_size_limit = file_size_limit
        self._process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def rss_bytes(self) -> int:
        return int(psutil.Process(self.pid).memory_info().rss)

    @property
    def open_files(self) -> int:
        return int(psutil.Process(self.pid).num_fds())

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill()

    def start(self) -> Self:
        command = self.command()
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=self._limit)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert str(self.port) in line, f"the broker did not start: {line!r}"
        return self

    def command(self) -> list[str]:
        penstock = os.environ.get("PENSTOCK") or str(Path(sys.executable).with_name("penstock"))
        command = [penstock, "serve", "--data", str(self.data), "--listen", self.address]
        if self.cluster is not None:
            command += ["--cluster", self.cluster]
        if self.store is not None:
            command += ["--store", self.store]
        if self.brokers is not None:
            command += ["--brokers", str(self.brokers)]
        for name, value in self.configs.items():
            command += ["-c", f"{name}={value}"]
        return command

    def _limit(self) -> None:
        if self.file_size_limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.file_size_limit, resource.RLIM_INFINITY))

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, nothing is said goodbye to."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: int) -> int:
        process, self._process = self._process, None
        assert process is not None
        assert process.stdout is not None
        os.kill(process.pid, number)
        try:
            return process.wait(WAIT_SECONDS)
        finally:
            process.stdout.close()
