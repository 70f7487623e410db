"""The console of `penstock serve`: a process of its own, which is started when somebody opens it.

The broker's process listens on the console's address, with a thread that waits there. The first connection starts the
console, which gets the listening socket and accepts that connection itself. A console that nobody opens therefore costs
neither startup time nor memory. If it has died, the next connection starts it again.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.failures import Failure

if TYPE_CHECKING:
    import subprocess

_END_SECONDS = 5.0


def bind_console(listen: str) -> socket.socket:
    """The socket of a console at HOST:PORT of this machine, which listens. Raises OSError, or Failure for another."""
    host, _, port = listen.rpartition(":")
    bare = host.strip("[]") or "127.0.0.1"
    if not port.isdigit() or int(port) > 65535:
        raise Failure(f"--console {listen!r} is not an address to listen on; it must look like 127.0.0.1:8080")
    if bare not in ("127.0.0.1", "localhost", "::1"):
        raise Failure(
            f"--console {listen} is reachable from other machines. A console that serves them needs TLS and a login:\n"
            "  penstock console --login --listen HOST:PORT --tls-cert FILE --tls-key FILE"
        )
    bound = socket.socket(socket.AF_INET6 if ":" in bare else socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((bare, int(port)))
        bound.listen(128)
    except OSError:
        bound.close()
        raise
    return bound


class ConsoleProcess:
    """The console of the brokers at `bootstrap`, from the first connection to `bound` on, until `end`.

    With `login` people log in as users of the cluster, whose certificates `authority` has signed.
    """

    def __init__(self, bound: socket.socket, bootstrap: str, *, login: bool, authority: Path | None) -> None:
        self._bound = bound
        self._line = [sys.executable, "-m", "penstock.cli.main", "console", "--until-stdin-closes"]
        self._line += ["--bootstrap", bootstrap, *(["--login"] if login else [])]
        self._line += ["--ca-file", str(authority)] if authority is not None else []
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = threading.Lock()
        self._waking, self._wake = os.pipe()
        self._is_over = False
        self._thread = threading.Thread(target=self._wait, name="console", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        host, port = self._bound.getsockname()[:2]
        return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"

    def end(self) -> None:
        """Close the pipe that the console waits on, and do not wait for it long."""
        with self._starting:
            self._is_over = True
            process = self._process
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
        os.write(self._wake, b"x")
        self._thread.join(_END_SECONDS)
        if self._thread.is_alive() and process is not None:
            process.kill()
            self._thread.join()
        for number in (self._waking, self._wake):
            os.close(number)
        self._bound.close()

    def _wait(self) -> None:
        while True:
            readable, _, _ = select.select([self._bound.fileno(), self._waking], [], [])
            if self._waking in readable:
                return
            process = self._start()
            if process is None:
                return
            process.wait()
            self._turn_away()

    def _turn_away(self) -> None:
        """Close the connections that a console has left waiting, or one that cannot start would be started for ever."""
        while select.select([self._bound.fileno()], [], [], 0)[0]:
            self._bound.accept()[0].close()

    def _start(self) -> subprocess.Popen[bytes] | None:
        import subprocess

        with self._starting:
            if self._is_over:
                return None
            number = self._bound.fileno()
            self._process = subprocess.Popen(
                [*self._line, "--listen-fd", str(number)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=[number],
            )
            return self._process
