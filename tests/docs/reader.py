"""Somebody who types what a page of the docs says, from top to bottom, in an empty folder.

Blocks of a page are fenced with their language:

- `sh` is typed into a shell. `penstock` or `penstock serve` stays in the background, in place of the one before it;
  `pip install` is done by readers for whom not everything is installed (`Reader.install`).
- `python`, `toml`, `yaml` and `properties` blocks are files: their first line is a comment with the name.
- `text` after a shell block is what it prints; `…` stands for anything.

Port 9092 is replaced by a free one, and so are 9192, of a second broker, and the monitoring port 9644.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.broker.process import free_port

WAIT_SECONDS = 60
_BLOCK = re.compile(r"^```([a-z]+)\n(.*?)^```$", re.S | re.M)
_FILES = ("python", "toml", "yaml", "properties")
_SERVE = re.compile(r"penstock( serve\b.*)?$", re.M)


class Reader:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.monitoring_port = free_port()
        self.second_port = free_port()
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "KAFKA_"))},
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PENSTOCK_LISTEN": f"127.0.0.1:{self.port}",
            "PENSTOCK_BOOTSTRAP": f"127.0.0.1:{self.port}",
        }
        self.broker: subprocess.Popen[str] | None = None

    def place(self, text: str) -> str:
        """The text with ports of our own."""
        ports = {9092: self.port, 9192: self.second_port, 9644: self.monitoring_port}
        for written, own in ports.items():
            text = text.replace(f"127.0.0.1:{written}", f"127.0.0.1:{own}")
        return text

    def shell(self, *options: str) -> list[str]:
        """The words of a command whose last word is typed into a shell."""
        return ["bash", *options, "-c"]

    def install(self, command: str) -> None:
        """Everything is installed here."""

    def serve(self, command: str) -> subprocess.Popen[str]:
        started = subprocess.Popen(
            [*self.shell(), f"exec {self.place(command)}"],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert started.stdout is not None
        while "serves" not in (line := started.stdout.readline()):
            assert line, started.communicate(timeout=WAIT_SECONDS)[1]
        return started

    def run(self, commands: str) -> str:
        done = subprocess.run(
            [*self.shell("-eu"), self.place(commands)],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS * 5,
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def close(self) -> None:
        if self.broker is not None:
            stop(self.broker)
            self.broker = None


def stop(broker: subprocess.Popen[str]) -> None:
    broker.send_signal(signal.SIGTERM)
    broker.communicate(timeout=WAIT_SECONDS)


def follow(reader: Reader, page: str) -> int:
    """Do what the page says. Returns how many blocks were carried out or compared."""
    printed, done = "", 0
    for kind, text in _BLOCK.findall(page):
        if kind in _FILES:
            name, _, rest = text.partition("\n")
            assert name.startswith("# "), f"a block of {kind} does not begin with the name of its file: {name}"
            path = reader.folder / name.removeprefix("# ")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(reader.place(rest))
        elif kind == "text":
            assert _pattern(reader.place(text)).search(printed), f"expected\n{text}\nin\n{printed}"
        elif kind == "sh" and text.startswith("pip install"):
            reader.install(text)
            continue
        elif kind == "sh" and _SERVE.match(text):
            reader.close()
            reader.broker = reader.serve(text.strip())
        elif kind == "sh":
            printed = reader.run(text)
        else:
            continue
        done += 1
    return done


def _pattern(text: str) -> re.Pattern[str]:
    """Lines in order, where an ellipsis is anything and blanks at line ends do not count."""
    lines: Sequence[str] = [line.rstrip() for line in text.strip().splitlines()]
    return re.compile(r"[ \t]*\n".join(".*?".join(map(re.escape, line.split("…"))) for line in lines), re.S)
