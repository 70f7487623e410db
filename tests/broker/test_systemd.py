"""What systemd hears of a broker."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.broker.systemd import Notifier

UNIT = Path(__file__).parents[2] / "packaging" / "systemd" / "penstock.service"


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.settimeout(30)
        listener.bind(str(tmp_path / "notify"))
        yield listener


def notified(listener: socket.socket) -> list[str]:
    return listener.recv(4096).decode().splitlines()


def test_a_broker_says_when_it_is_ready_that_it_lives_and_that_it_stops(
    listening: socket.socket, tmp_path: Path
) -> None:
    environment = {**os.environ, "NOTIFY_SOCKET": listening.getsockname(), "WATCHDOG_USEC": "200000"}
    environment.pop("WATCHDOG_PID", None)
    command = [sys.executable, "-m", "penstock.cli.main", "serve", "--listen", "127.0.0.1:0", "--data", "data"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as broker:
        try:
            first = notified(listening)
            assert first[0] == "READY=1"
            assert first[1].startswith("STATUS=serves 127.0.0.1:")
            assert notified(listening) == ["WATCHDOG=1"]
            assert notified(listening) == ["WATCHDOG=1"]
            broker.send_signal(signal.SIGTERM)
            while (line := notified(listening)) == ["WATCHDOG=1"]:
                pass
            assert line == ["STOPPING=1"]
            assert broker.wait(30) == 0
        finally:
            broker.kill()


async def test_a_watchdog_for_another_process_is_not_fed(listening: socket.socket) -> None:
    environment = {"NOTIFY_SOCKET": listening.getsockname(), "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}
    Notifier(environment, os.getpid()).ready("serves")
    assert notified(listening)[0] == "READY=1"
    await asyncio.sleep(0.05)
    listening.setblocking(False)
    with pytest.raises(BlockingIOError):
        listening.recv(4096)


@pytest.mark.parametrize("path", ["", "/nobody/listens/here", "relative"])
async def test_a_broker_serves_where_nobody_listens(path: str) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "1000"}, os.getpid())
    notifier.ready("serves")
    await asyncio.sleep(0.01)
    notifier.stopping()


async def test_an_abstract_socket_is_understood() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        name = f"penstock-test-{os.getpid()}"
        listener.bind("\0" + name)
        listener.settimeout(10)
        Notifier({"NOTIFY_SOCKET": "@" + name}, os.getpid()).ready("serves")
        assert notified(listener) == ["READY=1", "STATUS=serves"]


def test_the_unit_s_broker_reads_the_file_that_the_unit_names(tmp_path: Path) -> None:
    unit = UNIT.read_text()
    settings = dict(line.split("=", 1) for line in unit.splitlines() if "=" in line and not line.startswith("#"))
    assert "Options go into /etc/penstock/penstock.toml" in unit
    assert (settings["WorkingDirectory"], settings["ConfigurationDirectory"]) == ("/etc/penstock", "penstock")
    etc = tmp_path / "etc"
    etc.mkdir()
    (etc / "penstock.toml").write_text('[serve]\nlisten = ["127.0.0.1:0"]\nset = ["cluster.name.of.nobody=1"]\n')
    data = str(tmp_path / "data")
    command = settings["ExecStart"].replace("/var/lib/penstock", data).split()[1:]
    with subprocess.Popen(
        [sys.executable, "-m", "penstock.cli.main", *command],
        cwd=etc,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as broker:
        assert broker.stdout is not None
        assert "serves 127.0.0.1:" in broker.stdout.readline()
        broker.send_signal(signal.SIGTERM)
        _, errors = broker.communicate(timeout=60)
    assert "cluster.name.of.nobody" in errors


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_unit_is_correct_and_confined(tmp_path: Path) -> None:
    unit = tmp_path / "penstock.service"
    unit.write_text(UNIT.read_text().replace("/opt/penstock/bin/penstock", sys.executable))
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60
    )
    assert "penstock.service" not in checked.stderr
    security = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=25", str(unit)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert security.returncode == 0, security.stdout[-2000:] + security.stderr
