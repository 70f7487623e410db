"""Connections over TLS: handshakes, records of any size, slow and silent clients."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient

from penstock.security.principals import ANONYMOUS, user
from tests.broker.cold_disk import drop_from_memory
from tests.broker.tls_broker import API_VERSIONS, WAIT_SECONDS, TlsBroker, ask, exactly


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    configs = {"ssl.client.auth": "requested", "ssl.principal.mapping.rules": "RULE:^CN=(b.*)$/$1/U,DEFAULT"}
    with TlsBroker(tmp_path_factory.mktemp("tls"), configs, clients=["alice", "bob"]) as running:
        yield running


def closed_by_broker(sock: socket.socket) -> bool:
    sock.settimeout(WAIT_SECONDS)
    try:
        while sock.recv(1 << 16):
            pass
    except (ConnectionResetError, ssl.SSLError):
        pass
    return True


def s_client(broker: TlsBroker, *options: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{broker.port}", *options]
    return subprocess.run(command, input=typed, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)


class TestHandshakes:
    @pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
    def test_both_versions_are_served(self, broker: TlsBroker, version: ssl.TLSVersion) -> None:
        context = broker.context()
        context.minimum_version = context.maximum_version = version
        with broker.connect(context) as client:
            assert ask(client) == 7
            cipher = client.cipher()
            assert cipher is not None
            assert "GCM" in cipher[0]
            assert client.compression() is None

    def test_a_client_without_a_certificate_is_anonymous(self, broker: TlsBroker) -> None:
        with broker.connect() as client:
            assert ask(client) == 7
            assert ANONYMOUS in broker.principals()

    def test_the_subject_of_a_certificate_is_the_principal(self, broker: TlsBroker) -> None:
        with broker.connect(broker.context("alice")) as alice, broker.connect(broker.context("bob")) as bob:
            ask(alice)
            ask(bob)
            assert {user("CN=alice"), user("BOB")} <= set(broker.principals())

    def test_a_certificate_of_another_authority_is_refused(
        self, broker: TlsBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        def failed() -> str:
            (line,) = [
                each for each in broker.metrics().splitlines() if 'failed_authentication_total{listener="SSL"}' in each
            ]
            return line.rpartition(" ")[2]

        with TlsBroker(tmp_path, clients=["mallory"]) as other:
            context = broker.context()
            context.load_cert_chain(other.paths.clients["mallory"])
        before = failed()
        with pytest.raises((ssl.SSLError, ConnectionResetError)), broker.connect(context) as client:
            ask(client)
        deadline = time.monotonic() + WAIT_SECONDS  # the broker may notice after the client
        while "its certificate is not accepted" not in caplog.text:
            assert time.monotonic() < deadline, caplog.text
            time.sleep(0.01)
        assert float(failed()) == float(before) + 1
        assert 'failed_reauthentication_total{listener="SSL"} 0\n' in broker.metrics()

    def test_a_client_that_trusts_another_authority_turns_away(self, broker: TlsBroker) -> None:
        with pytest.raises(ssl.SSLCertVerificationError):
            broker.connect(ssl.create_default_context())

    def test_a_client_that_expects_another_host_turns_away(self, broker: TlsBroker) -> None:
        with pytest.raises(ssl.SSLCertVerificationError, match=r"not valid for 'example.org'"):
            broker.connect(host="example.org")

    def test_half_a_handshake_holds_up_nobody(self, broker: TlsBroker) -> None:
        silent = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(50)]
        for sock in silent[::2]:
            sock.sendall(b"\x16\x03\x01\x02\x00\x01")
        with broker.connect() as client:
            assert ask(client) == 7
        for sock in silent:
            sock.close()

    def test_one_that_arrives_byte_by_byte_succeeds(self, broker: TlsBroker) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = broker.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
        with socket.create_connection(("127.0.0.1", broker.port), WAIT_SECONDS) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while True:
                try:
                    client.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    pass
                for byte in outgoing.read():
                    sock.sendall(bytes([byte]))
                incoming.write(sock.recv(1 << 16))
            client.write(API_VERSIONS)
            for byte in outgoing.read():
                sock.sendall(bytes([byte]))
            incoming.write(sock.recv(1 << 16))
            answer = b""
            while len(answer) < 8:
                try:
                    answer += client.read(1 << 16)
                except ssl.SSLWantReadError:
                    incoming.write(sock.recv(1 << 16))
            assert struct.unpack_from(">i", answer, 4) == (7,)

    def test_plaintext_is_turned_away_with_a_line_in_the_log(
        self, broker: TlsBroker, caplog: pytest.LogCaptureFixture
    ) -> None:
        with socket.create_connection(("127.0.0.1", broker.port), WAIT_SECONDS) as sock:
            sock.sendall(API_VERSIONS)
            assert closed_by_broker(sock)
        assert "the client does not speak TLS; its security.protocol must be SSL" in caplog.text

    @pytest.mark.parametrize(
        "garbage", [b"\x16\x03\x01\x00\x05hello", b"\x16" * 5000, b"\x16\x03\x01\xff\xff" + bytes(70000)]
    )
    def test_garbage_is_turned_away(self, broker: TlsBroker, garbage: bytes) -> None:
        with socket.create_connection(("127.0.0.1", broker.port), WAIT_SECONDS) as sock:
            try:
                sock.sendall(garbage)
            except OSError:
                pass
            assert closed_by_broker(sock)
        with broker.connect() as client:
            assert ask(client) == 7

    @pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
    def test_renegotiation_is_refused(self, broker: TlsBroker) -> None:
        command = [
            "openssl",
            "s_client",
            "-tls1_2",
            "-connect",
            f"127.0.0.1:{broker.port}",
            "-CAfile",
            str(broker.paths.ca),
        ]
        done = subprocess.run(command, input="R\n", capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
        assert "no renegotiation" in done.stderr

    @pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
    def test_older_versions_are_refused(self, broker: TlsBroker) -> None:
        command = [
            "openssl",
            "s_client",
            "-tls1_1",
            "-cipher",
            "DEFAULT@SECLEVEL=0",
            "-connect",
            f"127.0.0.1:{broker.port}",
        ]
        done = subprocess.run(command, input="", capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
        assert done.returncode != 0
        assert "protocol version" in done.stderr


def test_a_client_without_a_certificate_is_refused_where_one_is_required(tmp_path: Path) -> None:
    with TlsBroker(tmp_path, {"ssl.client.auth": "required"}, clients=["alice"]) as broker:
        with pytest.raises((ssl.SSLError, ConnectionResetError)), broker.connect() as client:
            ask(client)
        with broker.connect(broker.context("alice")) as client:
            assert ask(client) == 7


def test_a_client_to_whom_no_rule_applies_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    configs = {"ssl.client.auth": "required", "ssl.principal.mapping.rules": "RULE:^CN=bob$/bob/"}
    with TlsBroker(tmp_path, configs, clients=["alice", "bob"]) as broker:
        with pytest.raises((ssl.SSLError, ConnectionResetError)), broker.connect(broker.context("alice")) as client:
            ask(client)
        with broker.connect(broker.context("bob")) as client:
            assert ask(client) == 7
            assert broker.principals() == [user("bob")]
    assert "no rule of ssl.principal.mapping.rules applies to 'CN=alice'" in caplog.text


def test_tls_where_none_is_served_is_turned_away_with_a_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        TlsBroker(tmp_path, listen=["PLAINTEXT://127.0.0.1:0"]) as broker,
        pytest.raises((ssl.SSLError, ConnectionResetError)),
    ):
        broker.connect()
    assert "it speaks TLS, and listener PLAINTEXT does not" in caplog.text


class TestBytes:
    def test_requests_that_arrive_together_are_all_answered(self, broker: TlsBroker) -> None:
        with broker.connect() as client:
            client.sendall(API_VERSIONS * 2000)
            for _ in range(2000):
                (size,) = struct.unpack(">i", exactly(client, 4))
                exactly(client, size)

    def test_a_client_that_goes_without_a_farewell_is_forgotten(self, broker: TlsBroker) -> None:
        client = broker.connect()
        ask(client)
        socket.socket(fileno=client.detach()).close()
        with broker.connect() as other:
            while broker.connections() > 1:
                ask(other)

    def test_the_broker_says_farewell(self, tmp_path: Path) -> None:
        with TlsBroker(tmp_path) as broker:
            client = broker.connect()
            ask(client)
        client.settimeout(WAIT_SECONDS)
        assert client.recv(1) == b""  # a connection that is cut off raises SSLEOFError
        client.close()


def kafka(broker: TlsBroker, **options: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(broker.paths.ca),
        **options,
    }


def produce(broker: TlsBroker, topic: str, values: list[bytes]) -> None:
    producer = Producer(kafka(broker, **{"message.max.bytes": 10_000_000}))
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(WAIT_SECONDS) == 0


def consume(broker: TlsBroker, topic: str, count: int, **options: object) -> list[bytes | None]:
    consumer = Consumer(kafka(broker, **{"group.id": "g", "message.max.bytes": 10_000_000, **options}))
    consumer.assign([ConfluentPartition(topic, 0, 0)])
    found: list[bytes | None] = []
    while len(found) < count:
        got = consumer.consume(count - len(found), WAIT_SECONDS)
        assert got
        found += [message.value() for message in got]
    consumer.close()
    return found


class TestRecords:
    @pytest.mark.parametrize("size", [0, 1, 16_000, 100_000, 900_000])
    def test_of_any_size_come_back_as_they_were(self, broker: TlsBroker, size: int) -> None:
        values = [os.urandom(size) for _ in range(20)]
        produce(broker, f"sizes-{size}", values)
        assert consume(broker, f"sizes-{size}", 20) == values

    def test_pass_through_a_small_window(self, broker: TlsBroker) -> None:
        values = [os.urandom(100_000) for _ in range(30)]
        produce(broker, "windows", values)
        assert consume(broker, "windows", 30, **{"socket.receive.buffer.bytes": 4096}) == values

    def test_come_back_when_they_are_on_the_disk_only(self, broker: TlsBroker) -> None:
        values = [os.urandom(900_000) for _ in range(20)]
        produce(broker, "cold", values)
        for path in (broker.folder / "data").rglob("*.log"):
            descriptor = os.open(path, os.O_RDONLY)
            drop_from_memory(descriptor)
            os.close(descriptor)
        assert consume(broker, "cold", 20) == values

    def test_are_not_sent_to_a_client_with_the_wrong_authority(self, broker: TlsBroker) -> None:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "security.protocol": "SSL", "group.id": "g"})
        with pytest.raises(KafkaException):
            consumer.list_topics(timeout=2)
        consumer.close()


class TestBounds:
    def test_handshakes_that_take_too_long_are_closed(self, tmp_path: Path) -> None:
        with (
            TlsBroker(tmp_path, {"penstock.authentication.timeout.ms": "100"}) as broker,
            broker.connect() as authenticated,
            socket.create_connection(("127.0.0.1", broker.port), WAIT_SECONDS) as silent,
        ):
            silent.sendall(b"\x16\x03\x01")
            assert closed_by_broker(silent)
            assert ask(authenticated) == 7

    def test_one_handshake_too_many_costs_the_oldest(self, tmp_path: Path) -> None:
        with TlsBroker(tmp_path, {"penstock.unauthenticated.connections.max.per.ip": "2"}) as broker:
            waiting = [socket.create_connection(("127.0.0.1", broker.port), WAIT_SECONDS) for _ in range(3)]
            assert closed_by_broker(waiting[0])
            with broker.connect() as client:
                assert ask(client) == 7
            for sock in waiting:
                sock.close()


def test_clients_are_told_the_address_of_the_listener_that_they_came_through(tmp_path: Path) -> None:
    listen = ["SSL://127.0.0.1:0", "INSIDE://127.0.0.1:0"]
    configs = {"listener.security.protocol.map": "INSIDE:PLAINTEXT"}
    with TlsBroker(tmp_path, configs, listen=listen) as broker:
        ports = [listener.port for listener in broker.server.parts.acceptor._listeners]
        inside: dict[str, Any] = {"bootstrap.servers": f"127.0.0.1:{ports[1]}"}
        for options in (kafka(broker), inside):
            found = AdminClient(options).list_topics(timeout=WAIT_SECONDS).brokers[1]
            assert found.port == int(str(options["bootstrap.servers"]).rpartition(":")[2])
