"""`python -m tests.operation.earlier_versions [COMMIT...]`: records data folders of earlier versions for the tests.

Each commit is checked out and its own broker is filled, asked for everything, and stopped or killed. The folder is
packed together with what that broker served. What a release has written stays here for good: a folder of 0.1 opens in
every later version.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.adoption import kafka_load
from tests.adoption.record import OBSERVED, as_json

ROOT = Path(__file__).parents[2]
FOLDERS = Path(__file__).parent / "folders"
USERS = {"authorizer.class.name", "super.users"}


@dataclass(frozen=True)
class Earlier:
    commit: str
    catalog: int
    """The version of its catalog."""
    is_killed: bool = False
    """Whether the broker was killed, in place of stopped."""
    has_users: bool = True

    @property
    def recording(self) -> Path:
        return FOLDERS / f"catalog-{self.catalog}-{self.commit}.tar.xz"

    @property
    def configs(self) -> dict[str, str]:
        return {name: value for name, value in kafka_load.SETTINGS.items() if self.has_users or name not in USERS}

    def check_out(self, folder: Path) -> Path:
        """The sources of that commit, to be put in front of today's. Raises CalledProcessError in a shallow clone."""
        archive = subprocess.run(
            ["git", "archive", self.commit, "src"], cwd=ROOT, check=True, capture_output=True
        ).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        return folder / "src"

    def observe(self, bootstrap: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(as_json(kafka_load.observe(bootstrap, has_users=self.has_users)))
        return found

    def unpack(self, folder: Path) -> dict[str, Any]:
        """The folder's contents into `folder`/data, and what is to be served from it: what its own broker served, with
        the records of the queue delivered once more."""
        with tarfile.open(self.recording) as archive:
            archive.extractall(folder, filter="data")
        expected: dict[str, Any] = json.loads((folder / OBSERVED).read_text())
        expected["records of the queue"] = kafka_load.delivered_once_more(expected["records of the queue"])
        return expected


# The first that serves groups, queues and transactions; the last one of each version of the catalog; the first of the
# present version; and one of the day on which these folders were recorded.
EARLIER = [
    Earlier("07ec1be", 1, is_killed=True, has_users=False),
    Earlier("f5b11ec", 2, has_users=False),
    Earlier("07241d7", 3, is_killed=True, has_users=False),
    Earlier("c140fe5", 4),
    Earlier("8ea6f06", 5, is_killed=True),
    Earlier("0ed29e5", 5),
]


class CheckedOut:
    """A broker of another commit, in a process of its own."""

    def __init__(self, sources: Path, data: Path, configs: dict[str, str]) -> None:
        command = [sys.executable, "-m", "penstock.cli.main", "serve", "--data", str(data), "--listen", "127.0.0.1:0"]
        for name, value in configs.items():
            command += ["-c", f"{name}={value}"]
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": str(sources)},
            cwd=sources,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        address = re.search(r"127\.0\.0\.1:\d+", line)
        assert address is not None, f"the broker does not start: {line}{self._process.communicate()[0]}"
        self.bootstrap = address.group()

    def end(self, number: int = signal.SIGTERM) -> None:
        with self._process as process:
            process.send_signal(number)


def record(earlier: Earlier) -> None:
    folder = Path(tempfile.mkdtemp(prefix="penstock-recording-"))
    try:
        broker = CheckedOut(earlier.check_out(folder), folder / "data", earlier.configs)
        held = kafka_load.fill(broker.bootstrap, has_users=earlier.has_users)
        time.sleep(3)  # until compaction has done what it will do
        observed = earlier.observe(broker.bootstrap)
        time.sleep(1)
        broker.end(signal.SIGKILL if earlier.is_killed else signal.SIGTERM)
        del held
        (folder / OBSERVED).write_text(json.dumps(observed, sort_keys=True))
        FOLDERS.mkdir(exist_ok=True)
        with tarfile.open(earlier.recording, "w:xz", preset=9) as archive:
            for name in ("data", OBSERVED):
                archive.add(folder / name, name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"wrote {earlier.recording}: {earlier.recording.stat().st_size} bytes")


if __name__ == "__main__":
    for each in EARLIER:
        if not sys.argv[1:] or each.commit in sys.argv[1:]:
            record(each)
