"""The console of `penstock serve`, as a process that starts when it is opened."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, Request, build_opener, urlopen

import pytest

from penstock.cli.console_process import ConsoleProcess, bind_console
from penstock.cli.failures import Failure

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    line = [sys.executable, "-m", "penstock.cli.main", "serve", "--data", str(folder), "--listen", "127.0.0.1:0"]
    with subprocess.Popen([*line, *arguments], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, [process.stdout.readline().strip() for _ in range(2)]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()] + [
        int(word)
        for task in os.listdir(f"/proc/{pid}/task")
        if task != str(pid)
        for word in Path(f"/proc/{pid}/task/{task}/children").read_text().split()
    ]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks into /proc")
@pytest.mark.timeout(200)
def test_the_console_starts_when_it_is_opened_again_when_it_died_and_ends_with_the_broker(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--console", "127.0.0.1:0") as (broker, (ready, line)):
        assert ready.startswith("Penstock ")
        assert line.startswith("Console: http://127.0.0.1:")
        address = line.split()[1]
        assert children(broker.pid) == []
        with urlopen(f"{address}topics.json", timeout=60) as answer:
            assert json.load(answer)["topics"] == []
        (console,) = children(broker.pid)
        with urlopen(f"{address}clients.json", timeout=60) as answer:
            assert json.load(answer)["is_shown"]  # the broker shows itself to the console that was asked for
        os.kill(console, signal.SIGKILL)
        until(lambda: children(broker.pid) == [])
        with urlopen(f"{address}topics.json", timeout=60) as answer:
            assert answer.status == 200
        (console,) = children(broker.pid)
    until(lambda: not Path(f"/proc/{console}").exists())


@pytest.mark.timeout(200)
def test_penstock_alone_has_a_console_that_is_shown_everything(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text('[serve]\nlisten = ["127.0.0.1:0"]\n')
    alone = (
        "import penstock.cli.console as c; c.DEFAULT_LISTEN = '127.0.0.1:0'; from penstock.cli.main import main; main()"
    )
    line = [sys.executable, "-c", alone]
    with subprocess.Popen(line, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        address = [broker.stdout.readline() for _ in range(2)][1].split()[1]
        with urlopen(f"{address}index.json", timeout=60) as answer:
            assert json.load(answer)["watched"]  # rates, ages and tasks
        with urlopen(f"{address}clients.json", timeout=60) as answer:
            assert json.load(answer)["is_shown"]
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(60) == 0


@pytest.mark.timeout(200)
def test_with_secure_people_log_in_to_the_console_over_the_brokers_own_authority(tmp_path: Path) -> None:
    arguments = ("--secure", "--console", "127.0.0.1:0")
    line = [sys.executable, "-m", "penstock.cli.main", "serve", "--data", str(tmp_path), "--listen", "127.0.0.1:0"]
    with subprocess.Popen([*line, *arguments], stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        address = next(said for said in broker.stdout if said.startswith("Console: ")).split()[1]
        jar = build_opener(HTTPCookieProcessor())
        with jar.open(address, timeout=60) as page:
            token = re.search(r'name="csrf" value="(\w+)"', page.read().decode())
        assert token is not None
        password = (tmp_path / "admin.password").read_text().strip()
        form = urlencode({"csrf": token[1], "user": "admin", "password": password}).encode()
        with jar.open(Request(f"{address}login", form, {"Origin": address.rstrip("/")}), timeout=60):
            pass
        with jar.open(f"{address}access.json", timeout=60) as answer:
            assert [row["user"] for row in json.load(answer)["users"]] == ["admin"]
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(60) == 0


@pytest.mark.timeout(200)
def test_the_console_of_several_brokers_finds_what_each_of_them_shows(tmp_path: Path) -> None:
    arguments = ("--brokers", "2", "--console", "127.0.0.1:0")
    with (
        serving(tmp_path / "data", *arguments) as (_, (_, line)),
        urlopen(f"{line.split()[1]}cluster.json", timeout=60) as answer,
    ):
        shown = json.load(answer)
    assert [row["broker"] for row in shown["brokers"]] == [1, 2]
    assert {row["broker"] for row in shown["ages"]} == {1, 2}


def test_a_console_that_nobody_opened_ends_at_once() -> None:
    bound = bind_console("127.0.0.1:0")
    console = ConsoleProcess(bound, "127.0.0.1:1", login=False, authority=None)
    assert console.address.startswith("http://127.0.0.1:")
    console.end()
    assert bound.fileno() == -1


@pytest.mark.parametrize("listen", ["0.0.0.0:8080", "example.com:1", "127.0.0.1", "127.0.0.1:http"])
def test_a_broker_serves_its_console_to_this_machine_only(listen: str) -> None:
    with pytest.raises(Failure):
        bind_console(listen)


def test_an_address_that_is_taken_is_refused_with_another_choice(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        line = [sys.executable, "-m", "penstock.cli.main", "serve", "--data", str(tmp_path), "--listen", "127.0.0.1:0"]
        line += ["--console", f"127.0.0.1:{taken.getsockname()[1]}"]
        refused = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 1
    assert "choose another address" in refused.stderr


@pytest.mark.timeout(200)
def test_a_console_that_ends_while_a_page_waits_for_a_broker_says_so_and_leaves_no_traceback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        line = [sys.executable, "-m", "penstock.cli.main", "console", "--listen", "127.0.0.1:0", "--until-stdin-closes"]
        line += ["--bootstrap", f"127.0.0.1:{silent.getsockname()[1]}"]
        pipe = subprocess.PIPE
        with subprocess.Popen(line, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            host, _, port = process.stdout.readline().split()[1].removeprefix("http://").rstrip("/").rpartition(":")
            page = HTTPConnection(host, int(port), timeout=60)
            page.request("GET", "/topics")
            silent.accept()  # the console has connected, and waits for an answer
            process.stdin.close()
            assert page.getresponse().status == 503
            assert process.wait(60) == 0
            assert process.stderr.read() == ""
