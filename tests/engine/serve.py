"""`penstock` as tests start it when an engine was chosen: `serve` gets a cluster and a store, all else is as it is.

A cluster of several is its first broker, which this process becomes; the others are its children, and end when it ends.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.engine.brokers import BROKERS, ENGINE, address_of

_NOT_OURS = ("--cluster", "--store", "--brokers")
_START_SECONDS = 60.0


def main() -> None:
    program = str(Path(sys.executable).with_name("penstock"))
    arguments = sys.argv[1:]
    if arguments[:1] != ["serve"] or any(each.partition("=")[0] in _NOT_OURS for each in arguments):
        os.execv(program, [program, *arguments])
    count = BROKERS[os.environ[ENGINE]]
    for number in range(2, count + 1):
        command = [program, *member(arguments, number, count)]
        quiet = subprocess.DEVNULL
        subprocess.Popen(command, stdin=quiet, stdout=quiet, preexec_fn=_die_with_parent)
        _await(command)
    os.execv(program, [program, *member(arguments, 1, count)])


def member(arguments: list[str], number: int, count: int) -> list[str]:
    """The arguments of one of the brokers: the first is as it was meant, the others have the next ports and ids."""
    made: list[str] = []
    data = arguments[arguments.index("--data") + 1]
    for name, value in zip(["", *arguments], arguments, strict=False):
        if name == "--listen" and number > 1:
            front, colon, port = value.rpartition(":")
            made.append(f"{front}{colon}{int(port) + number - 1}")
        elif name == "--data" and count > 1:
            made.append(f"{data}/{number}")
        elif name == "-c" and value.startswith("node.id=") and number > 1:
            made.append(f"node.id={int(value.partition('=')[2]) + number - 1}")
        else:
            made.append(value)
    if number > 1 and not any(each.startswith("node.id=") for each in made):
        made += ["-c", f"node.id={100 + number}"]
    cluster, store = address_of(Path(data))
    return [*made, "--cluster", cluster, "--store", store]


def _die_with_parent() -> None:
    """At once: what is started in the same place next finds the ports free."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def _await(command: list[str]) -> None:
    """Until a broker takes clients at the first address where it listens."""
    port = int(command[command.index("--listen") + 1].rpartition(":")[2])
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                sys.exit(f"the broker at port {port} does not answer")
            time.sleep(0.05)


if __name__ == "__main__":
    main()
