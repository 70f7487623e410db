"""The Java side: jars from Maven Central, the sources in java/ compiled, and JVMs that run one test at a time."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.peers import KAFKA_VERSION, PeerError, die_with_parent, maven_jars

from .catalog import TestMethod

HERE = Path(__file__).parent
PROJECT = HERE.parent.parent
BUILD = PROJECT / "build" / "kafka-tests"
SILENCE_LIMIT_S = 900.0
"""The longest time a test may take; the slowest take some three minutes on a busy machine."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one invocation of a test ended: PASS, FAIL or SKIP."""

    test: str
    status: str
    seconds: float
    reason: str = ""


def build() -> str:
    """The class path: our classes first, so that they hide those of Kafka that they replace."""
    for tool in ("java", "javac"):
        if shutil.which(tool) is None:
            raise PeerError(f"{tool} is missing: apt-get install default-jdk-headless")
    folder = Path.home() / ".cache" / "penstock" / f"kafka-tests-{KAFKA_VERSION}"
    jars = maven_jars(HERE / "pom.xml", folder, f"kafka-tools-{KAFKA_VERSION}-test.jar")
    classes = BUILD / "classes"
    sources = sorted((HERE / "java").rglob("*.java"))
    stamp = classes / ".compiled"
    if not stamp.exists() or stamp.stat().st_mtime < max(source.stat().st_mtime for source in sources):
        command = ["javac", "-nowarn", "-d", str(classes), "-cp", f"{jars}/*", *map(str, sources)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise PeerError(f"compiling the Java side failed:\n{done.stderr}")
        stamp.touch()
    return f"{classes}:{jars}/*"


def find_tests(class_path: str, classes: list[str]) -> list[TestMethod]:
    """What JUnit finds in these classes."""
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", class_path, "TestWorker", *classes]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise PeerError(f"JUnit found no tests:\n{done.stderr[-2000:]}")
    return [TestMethod(*line.split("\t")) for line in done.stdout.splitlines()]


class WorkerJvm:
    """A JVM that runs tests one after the other; one that hangs or ends is replaced when the next test is run."""

    def __init__(self, class_path: str, server: str, folder: Path) -> None:
        self._command = ["java", "-Xmx1g", f"-Djava.io.tmpdir={folder}"]
        self._command += [f"-Dserver.python={sys.executable}", f"-Dserver.kind={server}", "-cp", class_path]
        self._command += ["TestWorker"]
        self._log = folder / "worker.log"
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def run(self, test: TestMethod) -> list[Outcome]:
        process = self._process or await self._start()
        outcomes: list[Outcome] = []
        try:
            await self._converse(process, test, outcomes)
        except (TimeoutError, OSError, EOFError) as error:
            reason = f"took longer than {SILENCE_LIMIT_S:.0f} s" if isinstance(error, TimeoutError) else "the JVM ended"
            outcomes.append(Outcome(test.name, "FAIL", 0.0, reason))
            await self.stop()
        return outcomes

    async def _start(self) -> asyncio.subprocess.Process:
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=PROJECT,
                env={**os.environ, "PYTHONPATH": str(PROJECT)},
                preexec_fn=die_with_parent,
            )
        return self._process

    async def _converse(self, process: asyncio.subprocess.Process, test: TestMethod, outcomes: list[Outcome]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{test.unique_id}\n".encode())
        await process.stdin.drain()
        while True:
            line = await asyncio.wait_for(process.stdout.readline(), SILENCE_LIMIT_S)
            if not line:
                raise EOFError
            words = line.decode().rstrip("\n").split("\t")
            if words == ["DONE"]:
                return
            status, name, seconds, reason = words
            outcomes.append(Outcome(name, status, float(seconds), reason))

    async def stop(self) -> None:
        """Ends the JVM, which ends its broker first."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 30)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
