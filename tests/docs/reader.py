"""Somebody who types what a page of the docs says, from top to bottom, in an empty folder.

Blocks of a page are fenced with their language:

- `sh` is typed into a shell. `penstock` or `penstock serve` stays in the background, in place of the one before it.
  Commands that run until Ctrl-C (`Reader.endless`) are given the time to print a line, and then Ctrl-C.
- `python`, `toml`, `yaml`, `properties` and `text` blocks whose first line is a comment with the name of a file are
  that file. Another `python` block is a program, which is run.
- Another `text` block is what the block before it prints; `…` stands for anything.

A block of any other kind is an error, unless `Reader.other` knows what to do with it. Port 9092 is replaced by a free
one, and so are the ports beside it, 9192, of a second broker, and the monitoring port 9644.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from bench.peers import free_ports
from tests.broker.process import free_port
from tests.docs.blocks import Block, Blocks, blocks_of, commands

WAIT_SECONDS = 60
_FILES = ("python", "toml", "yaml", "properties", "text")
_FILE_NAME = re.compile(r"# ([\w./-]+\.(?:py|toml|ya?ml|properties|txt))\n")
_SERVE = re.compile(r"penstock( serve\b[^&]*)?$")


class Reader:
    endless: tuple[str, ...] = ()
    """How commands begin that run until Ctrl-C."""
    serves_together = False
    """Whether several brokers of one block run side by side, instead of each in place of the one before it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_ports(3)
        self.monitoring_port = free_port()
        self.second_port = free_port()
        self.places: dict[str, str] = {}
        """What is written in another way here than on the page, such as folders of a server."""
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "KAFKA_"))},
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PENSTOCK_LISTEN": f"127.0.0.1:{self.port}",
            "PENSTOCK_BOOTSTRAP": f"127.0.0.1:{self.port}",
        }
        self.printed = ""
        """By the last block."""
        self.brokers: list[subprocess.Popen[str]] = []

    def place(self, text: str) -> str:
        """The text with ports and places of our own."""
        for written, own in self.places.items():
            text = text.replace(written, own)
        ports = {9092: self.port, 9093: self.port + 1, 9192: self.second_port, 9644: self.monitoring_port}
        for port, ours in ports.items():
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{ours}")
        return text

    def shell(self, *options: str) -> list[str]:
        """The words of a command whose last word is typed into a shell."""
        return ["bash", *options, "-c"]

    def install(self, command: str) -> None:
        """Everything is installed here."""

    def serve(self, command: str) -> subprocess.Popen[str]:
        started = self._start(f"exec {self.place(command)}")
        self.printed = self.read_until(started, started.stdout, "serves")
        return started

    def run(self, commands: str) -> str:
        done = subprocess.run(
            [*self.shell("-eu", "-o", "pipefail"), self.place(commands)],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS * 5,
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def interrupt(self, command: str) -> str:
        """Start a command that runs until Ctrl-C, wait until it has printed something, and press Ctrl-C."""
        started = self._start(f"exec {self.place(command)}")
        try:
            printed = self.wait_for(started, command)
            started.send_signal(signal.SIGINT)
            rest, errors = started.communicate(timeout=WAIT_SECONDS)
        finally:
            started.kill()
        assert started.returncode in (0, 130), f"{command}\n{printed}{rest}\n{errors}"
        return printed + rest

    def wait_for(self, started: subprocess.Popen[str], command: str) -> str:
        """Wait until a command that runs until Ctrl-C has done something; here: has printed a line."""
        return self.read_until(started, started.stdout, "")

    def read_until(self, started: subprocess.Popen[str], stream: IO[str] | None, text: str) -> str:
        assert stream is not None
        printed = line = stream.readline()
        while text not in line or not line:
            assert line, printed + started.communicate(timeout=WAIT_SECONDS)[1]
            line = stream.readline()
            printed += line
        return printed

    def other(self, block: Block) -> bool:
        """Carry out a block in a way that only this page needs; `False` if it is like those of other pages."""
        return False

    def close(self) -> None:
        while self.brokers:
            stop(self.brokers.pop())

    def _start(self, command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.shell(), command],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_mind_ctrl_c,
        )


def _mind_ctrl_c() -> None:
    """A shell that starts the tests in the background (`make test &`) lets them ignore Ctrl-C, and what they start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def stop(broker: subprocess.Popen[str]) -> None:
    broker.send_signal(signal.SIGTERM)
    broker.communicate(timeout=WAIT_SECONDS)


def follow(reader: Reader, blocks: Blocks | str) -> int:
    """Do what a page says, or some blocks of one. Returns how many were carried out or compared."""
    if isinstance(blocks, str):
        blocks = Blocks("", blocks_of("", blocks))
    for block in blocks:
        if not reader.other(block):
            _carry_out(reader, block)
        blocks.done.append(block)
    return len(blocks.done)


def _carry_out(reader: Reader, block: Block) -> None:
    named = _FILE_NAME.match(block.text)
    if named is not None and block.language in _FILES:
        path = reader.folder / named[1]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(reader.place(block.text[named.end() :]))
    elif block.language == "text":
        assert _pattern(reader.place(block.text)).search(reader.printed), (
            f"expected\n{block.text}\nin\n{reader.printed}"
        )
    elif block.language == "python":
        path = reader.folder / "typed.py"
        path.write_text(reader.place(block.text))
        reader.printed = reader.run(f"python {path.name}")
    elif block.language == "sh":
        _type(reader, block.text)
    else:
        raise AssertionError(f"nobody knows how to carry out a block of '{block.language}': {block}")


def _type(reader: Reader, text: str) -> None:
    typed = commands(text)
    if all(command.startswith("pip install ") for command in typed):
        reader.install(text)
        return
    endless = [command for command in typed if command.startswith(reader.endless)]
    brokers = [command for command in typed if _SERVE.match(command) and command not in endless]
    if not endless and not brokers:
        reader.printed = reader.run(text)
        return
    is_fresh = True
    for command in typed:
        if command in brokers:
            if is_fresh or not reader.serves_together:
                reader.close()
            is_fresh = False
            reader.brokers.append(reader.serve(command))
        elif command in endless:
            reader.printed = reader.interrupt(command)
        else:
            reader.printed = reader.run(command)


def _pattern(text: str) -> re.Pattern[str]:
    """Lines in order, where an ellipsis is anything and blanks at line ends do not count."""
    lines: Sequence[str] = [line.rstrip() for line in text.strip().splitlines()]
    return re.compile(r"[ \t]*\n".join(".*?".join(map(re.escape, line.split("…"))) for line in lines), re.S)
