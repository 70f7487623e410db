"""The supervisor with processes that do as little as possible: they are started, started again, and ended together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from tests.broker.process import WAIT_SECONDS

# A supervisor of two processes that say that they are ready, then what each is to do. It prints what happens.
PROGRAM = """
import json, logging, os, signal, sys, time
from penstock.broker.processes.supervisor import Patience, ProcessesFailed, Supervisor

logging.basicConfig(format="%(message)s", stream=sys.stdout)

def ready(reports, word):
    os.write(reports, json.dumps({"ready": word, "remarks": []}).encode() + b"\\n")

def alive(reports):
    os.write(reports, json.dumps({"alive": True}).encode() + b"\\n")

def note(text):
    os.write(1, text.encode() + b"\\n")

BODY

try:
    Supervisor(
        ["one", "two"],
        child,
        on_ready=lambda ready: note("ready " + ",".join(each.addresses for each in ready)),
        on_stopping=lambda: note("stopping"),
        every=EVERY,
        beat=lambda: note("alive"),
        patience=Patience(PATIENCE),
    ).run()
except ProcessesFailed as error:
    note(f"failed: {error}")
"""


class Supervised:
    def __init__(self, body: str, every: float = 0.0, **patience: float) -> None:
        program = PROGRAM.replace("BODY", textwrap.dedent(body)).replace("EVERY", str(every))
        program = program.replace("PATIENCE", ", ".join(f"{name}={value}" for name, value in patience.items()))
        self.process = subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def rest(self) -> list[str]:
        text, _ = self.process.communicate(timeout=WAIT_SECONDS)
        assert self.process.returncode == 0, text
        return text.splitlines()


def test_it_says_once_that_all_are_ready_and_ends_all_with_one_signal() -> None:
    supervised = Supervised(
        """
        def child(place, reports):
            signal.signal(signal.SIGTERM, lambda *_: (note(f"{place} is told"), os._exit(0)))
            ready(reports, f"address-{place}")
            time.sleep(60)
        """
    )
    assert supervised.line() == "ready address-0,address-1"
    supervised.process.send_signal(signal.SIGINT)
    first, *notified = supervised.rest()
    assert first == "stopping"
    assert sorted(notified) == ["0 is told", "1 is told"]


def test_who_ends_is_started_again_and_the_other_one_is_left_alone(tmp_path: Path) -> None:
    supervised = Supervised(
        f"""
        def child(place, reports):
            with open({str(tmp_path)!r} + f"/{{place}}", "a") as file:
                file.write(f"{{os.getpid()}}\\n")
            ready(reports, "here")
            time.sleep(60)
        """
    )
    supervised.line()
    os.kill(int((tmp_path / "1").read_text()), signal.SIGKILL)
    assert "two (process" in (line := supervised.line())
    assert "was ended by signal 9 and is restarted" in line
    assert supervised.line() == "two is running again"
    supervised.process.send_signal(signal.SIGTERM)
    assert supervised.rest() == ["stopping"]
    assert len((tmp_path / "0").read_text().split()) == 1
    assert len((tmp_path / "1").read_text().split()) == 2


def test_the_first_failure_of_a_start_ends_all_and_is_raised() -> None:
    supervised = Supervised(
        """
        def child(place, reports):
            if place:
                os.write(reports, json.dumps({"failed": "the port is taken"}).encode() + b"\\n")
                return 1
            time.sleep(60)
        """
    )
    assert supervised.rest() == ["stopping", "failed: the port is taken"]


def test_one_that_dies_in_its_first_start_is_named() -> None:
    supervised = Supervised(
        """
        def child(place, reports):
            if place:
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)
        """
    )
    assert supervised.rest() == ["stopping", "failed: two was ended by signal 9 before it was ready"]


def test_one_that_goes_on_failing_is_tried_again_with_what_it_says(tmp_path: Path) -> None:
    supervised = Supervised(
        f"""
        def child(place, reports):
            with open({str(tmp_path)!r} + f"/{{place}}", "a") as file:
                file.write("x")
                times = file.tell()
            if place and times in (2, 3):
                os.write(reports, json.dumps({{"failed": f"no luck {{times}}"}}).encode() + b"\\n")
                return 1
            ready(reports, "here")
            while place and times == 1:
                if os.path.exists({str(tmp_path / "end")!r}):
                    return 0
                time.sleep(0.01)
            time.sleep(60)
        """
    )
    assert supervised.line() == "ready here,here"
    (tmp_path / "end").touch()  # not before: who ends while another one is not ready yet ends all of them
    assert "ended with code 0 and is restarted" in supervised.line()
    assert supervised.line().endswith("is restarted: no luck 2")
    assert supervised.line().endswith("is restarted: no luck 3")
    assert supervised.line() == "two is running again"
    supervised.process.send_signal(signal.SIGTERM)
    assert supervised.rest() == ["stopping"]


def test_a_sign_of_life_is_given_from_when_all_are_ready() -> None:
    supervised = Supervised(
        """
        def child(place, reports):
            ready(reports, "here")
            time.sleep(60)
        """,
        every=0.05,
    )
    assert [supervised.line() for _ in range(3)] == ["ready here,here", "alive", "alive"]
    supervised.process.send_signal(signal.SIGTERM)
    assert "stopping" in supervised.rest()


def test_one_that_hangs_is_killed_and_started_again(tmp_path: Path) -> None:
    supervised = Supervised(
        f"""
        def child(place, reports):
            with open({str(tmp_path)!r} + f"/{{place}}", "a") as file:
                file.write("x")
                hangs = place and file.tell() == 1
            ready(reports, "here")
            while not hangs:
                alive(reports)
                time.sleep(0.05)
            time.sleep(60)
        """,
        round_seconds=0.05,
        silent_rounds_max=40,
    )
    assert supervised.line() == "ready here,here"
    lines = [supervised.line()]
    while lines[-1] != "two is running again":
        lines.append(supervised.line())
    of_two = [line for line in lines if line.startswith("two")]
    assert of_two[0].endswith("does not respond and is killed")
    assert "was ended by signal 9 and is restarted" in of_two[1]
    supervised.process.send_signal(signal.SIGTERM)
    supervised.rest()


def test_one_that_starts_takes_the_time_that_it_takes(tmp_path: Path) -> None:
    supervised = Supervised(
        f"""
        def child(place, reports):
            with open({str(tmp_path)!r} + f"/{{place}}", "a") as file:
                file.write("x")
                is_first = file.tell() == 1
            if not is_first:
                time.sleep(1.5)  # to read its logs
            ready(reports, "here")
            while True:
                alive(reports)
                if place and is_first and os.path.exists({str(tmp_path / "end")!r}):
                    return 0
                time.sleep(0.05)
        """,
        round_seconds=0.05,
        silent_rounds_max=20,
    )
    assert supervised.line() == "ready here,here"
    (tmp_path / "end").touch()
    while not supervised.line().startswith("two (process"):
        pass
    while (line := supervised.line()) != "two is running again":
        assert not line.startswith("two"), line
    supervised.process.send_signal(signal.SIGTERM)
    supervised.rest()


DEAF = """
def child(place, reports):
    if place:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ready(reports, "here")
    time.sleep(60)
"""


def test_one_that_does_not_stop_in_time_is_killed() -> None:
    supervised = Supervised(DEAF, stop_seconds=0.5)
    supervised.line()
    supervised.process.send_signal(signal.SIGTERM)
    *_, last = supervised.rest()
    assert last.startswith("two (process")
    assert last.endswith("has not stopped and is killed")


def test_a_second_signal_ends_all_at_once() -> None:
    supervised = Supervised(DEAF, stop_seconds=3600, again_seconds=0)
    supervised.line()
    supervised.process.send_signal(signal.SIGINT)
    assert supervised.line() == "stopping"
    supervised.process.send_signal(signal.SIGINT)
    assert supervised.rest()[-1].endswith("has not stopped and is killed")
