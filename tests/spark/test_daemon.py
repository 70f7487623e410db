"""The process from which Spark forks its Python workers."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil


def test_an_idle_worker_whose_spark_goes_away_leaves_without_a_word(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_WORKER_FACTORY_SOCK_DIR": str(tmp_path),
        "SPARK_REUSE_WORKER": "1",
    }
    command = [sys.executable, "-m", "penstock.spark.daemon", "pyspark.worker"]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as daemon:
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        assert daemon.stderr is not None
        path = daemon.stdout.read(int.from_bytes(daemon.stdout.read(4), "big"))
        with socket.socket(socket.AF_UNIX) as spark:
            spark.settimeout(30)
            spark.connect(path)
            worker = psutil.Process(int.from_bytes(spark.recv(4), "big"))
        worker.wait(30)  # before the daemon is told to end, which would kill it
        daemon.stdin.close()
        assert daemon.stderr.read() == b""
        daemon.wait(30)
