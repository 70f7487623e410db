"""docs/how-to/security.md, done from top to bottom as it stands (but for ports and the folders of a server)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from penstock.broker.config.providers import resolve
from penstock.certificates import create_certificates
from penstock.client.sync import Producer
from penstock.testing import Broker
from tests.broker.process import free_port
from tests.docs.blocks import Block, Blocks, carries_out
from tests.docs.reader import Reader, follow, stop
from tests.docs.test_monitoring import PROMTOOL

ONE_SERVER, MONITORING = "One server", "Monitoring"


class Administrator(Reader):
    """One who sets up a secured broker at a terminal, in folders of our own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.exported = ""
        self.missing: list[str] = []
        self.places = {
            name: str(folder / name[1:]) for name in ("/var/lib/penstock", "/etc/penstock", "/run/secrets")
        } | {"0.0.0.0:9092": f"0.0.0.0:{free_port()}"}

    def serve(self, command: str) -> subprocess.Popen[str]:
        """A broker that prints to a terminal."""
        primary, secondary = os.openpty()
        self.terminal = os.fdopen(primary)
        started = subprocess.Popen(
            [*self.shell(), f"exec {self.place(command)}"],
            cwd=self.folder,
            env=self.environment,
            stdout=secondary,
            stderr=subprocess.PIPE,
            text=True,
        )
        os.close(secondary)
        self.printed = self.read_until(started, self.terminal, "serves")
        return started

    def run(self, commands: str) -> str:
        if (self.folder / "app.password").exists():
            self.environment["APP_PASSWORD"] = (self.folder / "app.password").read_text().strip()
        printed = super().run(self.exported + commands)
        self.exported += "".join(f"{line}\n" for line in commands.splitlines() if line.startswith("export "))
        return printed

    def other(self, block: Block) -> bool:
        text = self.place(block.text)
        match block.language, block.heading:
            case "text", _:
                found = re.search(r"password of admin: (\S+)", self.printed)
                if found is not None:
                    self.environment["PENSTOCK_PASSWORD"] = found[1]
                return False
            case "sh", "One server":
                stop(self.serve(block.text))
            case "sh", _ if text.startswith("kcat") and shutil.which("kcat", path=self.environment["PATH"]) is None:
                self.missing.append("kcat is not installed: make kcat")
            case "properties", "One server":
                create_certificates(self.folder / "etc/penstock", ["broker.example"])
                (self.folder / "etc/penstock/server.properties").write_text(text)
            case "properties", "How each client connects":
                self.list_topics(text)
            case "properties", "Brokers among themselves":
                self.serve_brokers_apart(text)
            case "properties", "Secrets":
                self.resolve(text)
            case "yaml", "Monitoring":
                self.check_scrape_config(text)
            case _:
                return False
        return True

    def list_topics(self, text: str) -> None:
        password = (self.folder / "app.password").read_text().strip()
        (self.folder / "client.properties").write_text(text.replace("PASSWORD", password))
        command = "env -u PENSTOCK_PASSWORD penstock topic list --client-config client.properties"
        assert "greetings" in super().run(command)

    def serve_brokers_apart(self, text: str) -> None:
        """A broker does not start if it could not trust its own certificate on the listener for brokers."""
        ports = free_port(), free_port()
        create_certificates(self.folder / "etc/penstock", ["127.0.0.1"])
        shutil.copy(self.folder / "etc/penstock/ca.pem", self.folder / "etc/penstock/brokers-ca.pem")
        text = text.replace("CLIENTS://:9092", f"CLIENTS://127.0.0.1:{ports[0]}").replace(
            "10.0.0.1:9192", f"127.0.0.1:{ports[1]}"
        )
        own = (self.folder / "etc/penstock/server.properties").read_text()  # the certificate for clients
        (self.folder / "brokers.properties").write_text(own + text)
        command = "env -u PENSTOCK_LISTEN penstock serve --secure --data apart --properties brokers.properties"
        stop(self.serve(command))
        assert str(ports[0]) in self.printed

    def resolve(self, text: str) -> None:
        secrets = self.folder / "run" / "secrets"
        secrets.mkdir(parents=True)
        (secrets / "broker.properties").write_text("key.password=hush\n")
        (secrets / "broker-key.pem").write_text("PEM")
        properties = dict(line.split("=", 1) for line in text.splitlines())
        assert resolve(properties, {"BROKER_USERS": "users"}) == {
            "ssl.key.password": "hush",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": "users",
            "ssl.keystore.key": "PEM",
        }

    def check_scrape_config(self, text: str) -> None:
        assert yaml.safe_load(text)["scrape_configs"][0]["scheme"] == "https"
        shutil.copy(self.folder / "prometheus.password", self.folder / "run/secrets/prometheus")
        (self.folder / "prometheus.yml").write_text(text)
        if PROMTOOL is None:
            self.missing.append("promtool is not installed: make promtool")
        else:
            super().run(f"{PROMTOOL} check config prometheus.yml")


@pytest.mark.timeout(300)
@carries_out("how-to/security.md", skip=["# Spark"])
def test_a_broker_is_secured(tmp_path: Path, blocks: Blocks) -> None:
    reader = Administrator(tmp_path)
    try:
        for block in blocks:
            follow(reader, Blocks(blocks.page, [block]))
            if block.language == "python" or block.text.startswith("kcat"):
                assert "hello, securely" in reader.printed or reader.missing
            blocks.done.append(block)
    finally:
        reader.close()
    if reader.missing:
        pytest.skip("; ".join(reader.missing))


@pytest.mark.spark
@pytest.mark.timeout(300)
@carries_out("how-to/security.md", "# Spark")
def test_spark_connects_to_it(tmp_path: Path, blocks: Blocks) -> None:
    with Broker(tls=True, users={"app": "secret"}) as broker:
        with Producer(broker.client_settings("app")) as producer:
            producer.send("greetings", b"hello, securely")
        reader = Reader(tmp_path)
        reader.port = broker.port
        reader.places = {"penstock-data/tls/ca.pem": broker.ca_file}
        reader.environment["APP_PASSWORD"] = "secret"
        follow(reader, blocks)
        assert reader.printed.splitlines()[-1] == "b'hello, securely'"
