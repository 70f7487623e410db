"""A Spark standalone cluster for tests: a master and two workers as processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from penstock.spark.java import find_java_home


class Standalone:
    """A master and two workers of one core each."""

    def __init__(self, folder: Path) -> None:
        import pyspark

        self._folder = folder
        self._home = Path(pyspark.__file__).parent
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def start(self) -> None:
        self._run("master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0")
        self.url = self._told("master", "Starting Spark master at ").strip()
        for number in range(2):
            arguments = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0", self.url)
            self._run(f"worker{number}", "org.apache.spark.deploy.worker.Worker", *arguments)
        for number in range(2):
            self._told(f"worker{number}", "Successfully registered with master")

    def _run(self, name: str, *command: str) -> None:
        environment = {
            **os.environ,
            "JAVA_HOME": str(find_java_home()),
            "SPARK_HOME": str(self._home),
            "SPARK_WORKER_DIR": str(self._folder / name),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_MASTER_WEBUI_PORT": "0",
        }
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(self._home / "bin" / "spark-class"), *command],
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._processes.append(process)

    def _told(self, name: str, text: str) -> str:
        log = self._folder / f"{name}.log"
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            for line in log.read_text(errors="replace").splitlines():
                if text in line:
                    return line.split(text, 1)[1]
            time.sleep(0.2)
        raise TimeoutError(f"{name} did not start: {log.read_text(errors='replace')[-1000:]}")

    def kill_worker(self) -> None:
        """The second worker and everything that it started: its executor, and the Python workers of that."""
        os.killpg(self._processes[2].pid, signal.SIGKILL)

    def stop(self) -> None:
        for process in reversed(self._processes):
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            process.wait(30)
