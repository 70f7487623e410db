"""docs/how-to/security.md, done from top to bottom as it stands (but for ports and the folders of a server)."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.broker.config.providers import resolve
from penstock.certificates import create_certificates
from penstock.testing import Broker
from tests.broker.process import free_port
from tests.docs.reader import WAIT_SECONDS, stop
from tests.docs.reader import Reader as PageReader

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "security.md").read_text("utf-8")
BLOCKS: list[tuple[str, str]] = re.findall(r"```(sh|python|properties)\n(.*?)```", PAGE, re.S)
PROGRAMS = {text.splitlines()[0].removeprefix("# "): text for kind, text in BLOCKS if kind == "python"}


class Reader(PageReader):
    """One who sets up a secured broker, in folders of our own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.exported = ""

    def place(self, text: str) -> str:
        text = super().place(text).replace("0.0.0.0:9092", f"0.0.0.0:{free_port()}")
        for name in ("/var/lib/penstock", "/etc/penstock", "/run/secrets"):
            text = text.replace(name, str(self.folder / name[1:]))
        return text

    def run(self, commands: str) -> str:
        printed = super().run(self.exported + commands)
        self.exported += "".join(f"{line}\n" for line in commands.splitlines() if line.startswith("export "))
        return printed

    def program(self, text: str) -> str:
        environment = {**self.environment, "APP_PASSWORD": self.password("app")}
        done = subprocess.run(
            [sys.executable, "-c", self.place(text)],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS * 4,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def password(self, user: str) -> str:
        return (self.folder / f"{user}.password").read_text().strip()


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    reader.close()


@pytest.mark.timeout(300)
def test_the_page_does_what_it_says(reader: Reader) -> None:
    done: list[str] = []
    for kind, text in BLOCKS:
        if kind == "python" and not text.startswith("# Spark"):
            done.append(_run_program(reader, text))
        elif kind == "properties":
            done.append(_take_properties(reader, text))
        elif kind == "sh" and not text.startswith("pip install"):
            done.append(_type(reader, text))
    assert len(done) == len(BLOCKS) - 2


def _run_program(reader: Reader, text: str) -> str:
    printed = reader.program(text)
    assert printed == "b'hello, securely'"
    return printed


def _type(reader: Reader, text: str) -> str:
    if text.startswith("penstock serve") and reader.broker is None:
        reader.broker = reader.serve(text)
        folder = reader.folder / "penstock-data"
        reader.environment["PENSTOCK_PASSWORD"] = (folder / "admin.password").read_text().strip()
        return text
    if text.startswith("penstock serve"):
        stop(reader.serve(text))
        return text
    if text.startswith("kcat"):
        if shutil.which("kcat", path=reader.environment["PATH"]) is None:
            return "there is no kcat here: make kcat"
        reader.environment["APP_PASSWORD"] = reader.password("app")
        assert "hello, securely" in reader.run(text)
        return text
    printed = reader.run(text)
    if "acl explain" in text:
        assert printed[printed.index("User:shop may not read") :] in PAGE
    return printed


def _take_properties(reader: Reader, text: str) -> str:
    text = reader.place(text)
    if "config.providers" in text:
        secrets = reader.folder / "run" / "secrets"
        secrets.mkdir(parents=True)
        (secrets / "broker.properties").write_text("key.password=hush\n")
        (secrets / "broker-key.pem").write_text("PEM")
        properties = dict(line.split("=", 1) for line in text.splitlines())
        assert resolve(properties, {"BROKER_USERS": "users"}) == {
            "ssl.key.password": "hush",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": "users",
            "ssl.keystore.key": "PEM",
        }
    elif "ssl.keystore.location" in text:
        create_certificates(reader.folder / "etc" / "penstock", ["broker.example"])
        (reader.folder / "etc" / "penstock" / "server.properties").write_text(text)
    else:
        (reader.folder / "client.properties").write_text(text.replace("PASSWORD", reader.password("app")))
        listed = subprocess.run(
            ["penstock", "topic", "list", "--client-config", "client.properties"],
            cwd=reader.folder,
            env=reader.environment,
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
        )
        assert "greetings" in listed.stdout, listed.stderr
    return text


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_spark_connects_as_the_page_says(penstock_broker: Broker, tmp_path: Path) -> None:
    with Broker(tls=True, users={"app": "secret"}) as broker:
        from penstock.client.sync import Producer

        with Producer(broker.client_settings("app")) as producer:
            producer.send("greetings", b"hello, securely")
        reader = Reader(tmp_path)
        reader.port = broker.port
        (tmp_path / "app.password").write_text("secret")
        program = PROGRAMS["Spark"].replace("penstock-data/tls/ca.pem", broker.ca_file)
        assert reader.program(program).splitlines()[-1] == "b'hello, securely'"
