"""docs/how-to/console.md: its commands serve pages, its expressions are taken, by a console over a secured broker."""

from __future__ import annotations

import ssl
import subprocess
import time
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from penstock.certificates import create_certificates
from tests.docs.blocks import Block, Blocks, carries_out
from tests.docs.reader import WAIT_SECONDS, Reader, follow

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from penstock.console.filters import parse

_SEARCHING, _LOGIN = "Searching messages", "Who can open it"


class Visitor(Reader):
    """Somebody who opens the console in a browser once it says where it is."""

    endless = ("penstock console", "penstock serve --console")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.visited: list[tuple[str, int]] = []
        self.environment["PENSTOCK_CONSOLE_LISTEN"] = "127.0.0.1:0"
        self.places = {
            "penstock serve --console 127.0.0.1:8080": "env -u PENSTOCK_USER -u PENSTOCK_CA_FILE penstock serve"
            " --data another --listen 127.0.0.1:0 --console 127.0.0.1:0",
            "broker.example:9092": f"127.0.0.1:{self.port}",
            "0.0.0.0:8443": "0.0.0.0:0",
            "ca.pem": "penstock-data/tls/ca.pem",
        }

    def other(self, block: Block) -> bool:
        self.environment.pop("PENSTOCK_USER", None)
        if block.heading != _LOGIN:
            self.environment["PENSTOCK_USER"] = "admin"
        return False

    def wait_for(self, started: subprocess.Popen[str], command: str) -> str:
        printed = self.read_until(started, started.stdout, "Console")
        url = printed.split("Console: ")[1].split()[0].replace("0.0.0.0", "127.0.0.1")
        self.visited.append((command, opened(url)))
        return printed


def opened(url: str) -> int:
    """The status of the first page, whoever signed its certificate."""
    context = ssl._create_unverified_context() if url.startswith("https") else None
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            with urlopen(url, timeout=WAIT_SECONDS, context=context) as answer:
                return int(answer.status)
        except HTTPError as error:
            return error.code
        except OSError:
            assert time.monotonic() < deadline, url
            time.sleep(0.1)


@pytest.mark.timeout(300)
@carries_out("how-to/console.md", skip=[_SEARCHING])
def test_every_command_of_the_page_serves_the_console(tmp_path: Path, blocks: Blocks) -> None:
    reader = Visitor(tmp_path)
    certificates = create_certificates(tmp_path / "own", ["console.example"])
    for name in ("console.pem", "console.key"):
        (tmp_path / name).write_bytes(certificates.broker.read_bytes())
    reader.brokers.append(reader.serve("penstock serve --secure"))
    password = tmp_path / "penstock-data" / "admin.password"
    reader.environment["PENSTOCK_CA_FILE"] = "penstock-data/tls/ca.pem"
    reader.environment["PENSTOCK_PASSWORD"] = password.read_text().strip()
    reader.run(f"penstock user add alice --user admin --new-password-file {password}")
    reader.run("penstock acl add alice --user admin --admin")
    try:
        follow(reader, blocks)
        assert [status for _, status in reader.visited] == [200] * 5
    finally:
        reader.close()


@carries_out("how-to/console.md", _SEARCHING)
def test_the_expressions_of_the_page_can_be_searched_for(blocks: Blocks) -> None:
    (block,) = blocks
    for line in block.text.splitlines():
        assert parse(line) is not None
    assert len(block.text.splitlines()) == 3
    blocks.done.append(block)
