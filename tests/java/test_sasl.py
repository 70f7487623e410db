"""Apache's Java client logs in, is refused, and renews its sessions."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.testing import Broker
from tests.broker.sasl_client import SaslClient, sasl_broker

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

PACKAGE = "org.apache.kafka.common.security"
MODULES = {
    "PLAIN": f"{PACKAGE}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{PACKAGE}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{PACKAGE}.scram.ScramLoginModule",
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with sasl_broker(tmp_path / "data", {"connections.max.reauth.ms": 1000}) as running:
        running.create_topic("orders")
        yield running


class Tools:
    def __init__(self, jars: Path, broker: Broker, folder: Path) -> None:
        self._jars, self._broker = jars, broker
        self._properties = folder / "client.properties"

    def start(self, mechanism: str, password: str, tool: str, *args: str) -> subprocess.Popen[str]:
        login = f'{MODULES[mechanism]} required username="alice" password="{password}";'
        self._properties.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={login}\n"
        )
        command = ["java", "-cp", f"{self._jars}/*", f"org.apache.kafka.tools.{tool}"]
        options = ["--bootstrap-server", self._broker.bootstrap_servers, "--command-config", str(self._properties)]
        return subprocess.Popen(
            [*command, *options, *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def tools(kafka_jars: Path, broker: Broker, tmp_path: Path) -> Tools:
    return Tools(kafka_jars, broker, tmp_path)


@pytest.mark.parametrize("mechanism", MODULES)
def test_it_logs_in_with_the_right_password_only(tools: Tools, mechanism: str) -> None:
    listed, _ = tools.start(mechanism, "secret", "TopicCommand", "--list").communicate()
    assert listed.split() == ["orders"]
    refused, _ = tools.start(mechanism, "wrong", "TopicCommand", "--list").communicate()
    assert "Authentication failed: Invalid user" in refused


def test_a_session_goes_on_when_it_is_renewed(tools: Tools, broker: Broker) -> None:
    renewed = "kafka_server_socket_server_metrics_successful_reauthentication_total "

    def renewals() -> int:
        lines = broker._running().parts.metrics.text().splitlines()
        return int(next(line for line in lines if line.startswith(renewed)).split()[1])

    consumer = tools.start(
        "SCRAM-SHA-512",
        "secret",
        "consumer.ConsoleConsumer",
        "--topic",
        "orders",
        "--from-beginning",
        "--max-messages=1",
    )
    try:
        with SaslClient(broker.port) as client:
            while renewals() < 4:
                assert consumer.poll() is None
                client.is_readable(0.05)
        producer = tools.start("PLAIN", "secret", "ConsoleProducer", "--topic", "orders")
        producer.communicate("hello\n")
        assert consumer.communicate()[0] == "hello\n"
    finally:
        consumer.kill()
    lines = broker._running().parts.metrics.text().splitlines()
    assert "kafka_server_socket_server_metrics_expired_connections_killed_count 0" in lines
