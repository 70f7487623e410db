"""A broker in a process of its own, to be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.peers import answers_api_versions, free_port
from tests.transactions.wire_client import Wire, eventually

ROOT = Path(__file__).parent.parent.parent


class BrokerProcess:
    def __init__(self, folder: Path, program: str = "crashing_broker") -> None:
        """`program` is a module of this folder that takes one argument of its own, the data folder and a port."""
        self.folder = folder
        self._program = program
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self, argument: str = "never") -> Self:
        """Serve; by default die at the point that the argument names (see crashing_broker)."""
        module = f"tests.transactions.{self._program}"
        command = [sys.executable, "-m", module, argument, str(self.folder), str(self.port)]
        with (self.folder.parent / f"{self.folder.name}.out").open("ab") as output:
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
        process = self._process
        assert eventually(lambda: answers_api_versions(self.port) or process.poll(), bool, 20) is True
        return self

    def wait_until_dead(self) -> None:
        assert self._process is not None
        assert self._process.wait(20) == -signal.SIGKILL

    def kill(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait(20)

    def connect(self) -> Wire:
        return Wire(self.port)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()
