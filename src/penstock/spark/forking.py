"""A process that imports, while the JVM starts, what Spark's Python processes will need, and is forked for each.

The first query of a session needs four Python processes, one after another: to look for data sources, to make ours, to
plan, and to run tasks. Each takes a third of a second to a second to import the same modules. `session()` starts one
process that imports all of them once, at a time when a program only waits for Java. When Spark starts an interpreter
it runs `forked`, which asks for a fork.

A fork differs from an interpreter that was started only in what an interpreter reads when it starts: if one of those
settings in its environment is not the same as here, it is refused, and started as usual. The process ends with the
program that started it, whatever the way that one ends.
"""

from __future__ import annotations

import atexit
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path

VARIABLE = "PENSTOCK_SPARK_FORKING"
DAEMONS = ("pyspark.daemon", "penstock.spark.daemon")
# What Spark gives to tasks, unless it is told otherwise; those who plan do not mind. The second is read by numpy and
# pyarrow when they are imported, and also keeps them from starting threads, which a fork would not have.
_FOR_TASKS = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
_FOR_ALL = {"PYTHONUNBUFFERED": "YES"}
_HANDED = 3
_MODULES = (
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.create_data_source",
    "pyspark_penstock",
    "pyspark.sql.worker.plan_data_source_read",
    "penstock.spark.planning",
    "pyspark.worker",
)

_running: subprocess.Popen[bytes] | None = None


def start(environment: MutableMapping[str, str]) -> None:
    """Start the process, once per program, and tell `forked` where it is; without it everything goes on as usual."""
    global _running
    if sys.platform != "linux" or (_running is not None and _running.poll() is None and VARIABLE in environment):
        return
    folder = tempfile.mkdtemp(prefix="penstock-forking-")  # nobody else may look into it
    path = f"{folder}/socket"
    with suppress(OSError), socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(64)
        _running = subprocess.Popen(
            [sys.executable, "-m", "penstock.spark.forking", str(listening.fileno()), folder],
            stdin=subprocess.PIPE,  # its end tells that this program has ended
            env={**_FOR_TASKS, **environment, **_FOR_ALL},
            pass_fds=[listening.fileno()],
        )
        environment[VARIABLE] = path
        atexit.register(_stop, _running)
        return
    shutil.rmtree(folder, ignore_errors=True)


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(5)


def serve(listening: socket.socket) -> None:
    """Import, then fork for everyone who asks, until the standard input ends."""
    settings = interpreter_settings(os.environ)
    for name in _MODULES:
        import_module(name)
    from penstock.spark.daemon import preload

    preload("pyspark.worker")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended children are nobody's business
    while True:
        ready, _, _ = select.select([0, listening.fileno()], [], [])
        if 0 in ready:
            return
        connection, _ = listening.accept()
        with connection, suppress(OSError, ValueError):
            _answer(connection, listening, settings)


def interpreter_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """What an interpreter and what it imports read from their environment when they start."""
    of_python = {name: value for name, value in environment.items() if name.startswith("PYTHON") and name[6:7] != "_"}
    found = {**{name: environment.get(name, value) for name, value in _FOR_TASKS.items()}, **of_python}
    if "PYTHONPATH" in found:
        # Spark puts together what the program has and what its settings say, which may be the same twice.
        found["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, found["PYTHONPATH"].split(os.pathsep))))
    return {name: value for name, value in found.items() if value}


def _answer(connection: socket.socket, listening: socket.socket, settings: Mapping[str, str]) -> None:
    connection.settimeout(10)
    head, handed, _, _ = socket.recv_fds(connection, 4, _HANDED)
    try:
        folder, count, *rest = _receive(connection, int.from_bytes(head, "big")).split("\0")
        arguments, pairs = rest[: int(count)], rest[int(count) :]
        environment = dict(pair.split("=", 1) for pair in pairs)
        known = len(arguments) == 3 and arguments[0] == "-m" and arguments[1] in DAEMONS and len(handed) == _HANDED
        if not known or interpreter_settings(environment) != settings:
            connection.sendall(b"n")
        elif os.fork() == 0:
            listening.close()
            connection.settimeout(None)
            code = 1
            try:
                code = _become(connection, handed, folder, arguments, environment)
            finally:
                os._exit(code)
    finally:
        for number in handed:
            os.close(number)


def _receive(connection: socket.socket, size: int) -> str:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ValueError("half a question")
        data += part
    return data.decode("utf-8", "surrogateescape")


def _become(
    connection: socket.socket, handed: list[int], folder: str, arguments: list[str], environment: Mapping[str, str]
) -> int:
    """In the fork: be what was to be started."""
    from penstock.spark import daemon

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, given in enumerate(handed):
        os.dup2(given, number)
        os.close(given)
    handed.clear()
    os.chdir(folder)
    sys.path[0] = folder
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [arguments[1], arguments[2]]
    connection.sendall(b"y")
    code = 1
    try:
        daemon.serve()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            connection.sendall(bytes([code & 0xFF]))
    return code


def main(descriptor: str, folder: str) -> None:
    try:
        with socket.socket(fileno=int(descriptor)) as listening:
            serve(listening)
    finally:
        shutil.rmtree(Path(folder), ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
