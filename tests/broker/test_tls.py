"""TLS of a listener: its configs, and certificates that change while it serves."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from cryptography.hazmat.primitives import serialization

from penstock.broker.config import BrokerConfig, ConfigError
from penstock.broker.tls import TlsServer
from penstock.certificates import Certificates, create_certificates, make_certificates
from penstock.security.protocols import SecurityProtocol
from tests.broker.tls_broker import HOSTS, WAIT_SECONDS, TlsBroker, ask


@pytest.fixture(scope="module")
def made() -> Certificates:
    return make_certificates(HOSTS, ["alice"])


def server(configs: dict[str, str], protocol: SecurityProtocol = SecurityProtocol.SSL) -> TlsServer:
    return TlsServer(BrokerConfig(configs).for_listener("OUTSIDE"), "OUTSIDE", protocol)


class TestContexts:
    def test_neither_compress_nor_renegotiate(self, made: Certificates) -> None:
        context = server(made.broker_configs()).context
        assert context.options & ssl.OP_NO_RENEGOTIATION
        assert context.options & ssl.OP_NO_COMPRESSION
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2

    @pytest.mark.parametrize(
        ("client_auth", "mode"),
        [("none", ssl.CERT_NONE), ("requested", ssl.CERT_OPTIONAL), ("required", ssl.CERT_REQUIRED)],
    )
    def test_verify_clients_as_configured(self, made: Certificates, client_auth: str, mode: ssl.VerifyMode) -> None:
        context = server({**made.broker_configs(), "ssl.client.auth": client_auth}).context
        assert context.verify_mode is mode

    def test_with_sasl_verify_clients_only_where_the_listener_says_so(self, made: Certificates) -> None:
        configs = {**made.broker_configs(), "ssl.client.auth": "required"}
        assert server(configs, SecurityProtocol.SASL_SSL).context.verify_mode is ssl.CERT_NONE
        configs["listener.name.outside.ssl.client.auth"] = "required"
        assert server(configs, SecurityProtocol.SASL_SSL).context.verify_mode is ssl.CERT_REQUIRED

    def test_may_be_those_of_a_listener_alone(self, made: Certificates) -> None:
        server(made.broker_configs("listener.name.outside."))
        with pytest.raises(ConfigError, match="penstock tls create"):
            server(made.broker_configs("listener.name.inside."))

    def test_take_a_key_with_a_password(self, made: Certificates) -> None:
        key = serialization.load_pem_private_key(made.broker.key.encode(), None)
        encrypted = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        ).decode()
        configs = {**made.broker_configs(), "ssl.keystore.key": encrypted}
        server({**configs, "ssl.key.password": "secret"})
        for wrong in ({}, {"ssl.key.password": "hunter2"}):
            with pytest.raises(ConfigError, match=r"ssl\.key\.password is wrong") as raised:
                server({**configs, **wrong})
            assert "hunter2" not in str(raised.value)

    def test_with_a_key_of_another_certificate_are_refused(self, made: Certificates) -> None:
        with pytest.raises(ConfigError, match="cannot be used together"):
            server({**made.broker_configs(), "ssl.keystore.key": make_certificates(HOSTS).broker.key})

    def test_that_verify_clients_need_a_truststore(self, made: Certificates) -> None:
        configs = {name: value for name, value in made.broker_configs().items() if "truststore" not in name}
        with pytest.raises(ConfigError, match=r"ssl\.client\.auth=required needs the certificates"):
            server({**configs, "ssl.client.auth": "required"})

    def test_with_a_malformed_rule_are_refused(self, made: Certificates) -> None:
        with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules: 'RULE:x' is not a rule"):
            server({**made.broker_configs(), "ssl.principal.mapping.rules": "RULE:x"})


def serial(client: ssl.SSLSocket) -> object:
    certificate = client.getpeercert()
    assert certificate is not None
    return certificate["serialNumber"]


class TestChanges:
    def test_a_new_certificate_is_shown_to_new_clients_and_the_old_ones_stay(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with TlsBroker(tmp_path) as broker, broker.connect() as before:
            create_certificates(tmp_path / "tls", HOSTS)
            broker.refresh()
            with broker.connect() as after:
                assert serial(before) != serial(after)
                assert ask(before) == ask(after) == 7
        assert "has read its certificate again" in caplog.text

    def test_they_are_noticed_by_themselves(self, tmp_path: Path) -> None:
        with TlsBroker(tmp_path) as broker:
            with broker.connect() as before:
                old = serial(before)
            create_certificates(tmp_path / "tls", HOSTS)
            new = old
            while new == old:
                with broker.connect() as after:
                    new = serial(after)

    def test_one_that_is_broken_leaves_the_old_one_and_a_line_in_the_log(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with TlsBroker(tmp_path) as broker:
            with broker.connect() as before:
                old = serial(before)
            whole = broker.paths.broker.read_text()
            broker.paths.broker.write_text(whole[: len(whole) // 2])
            for _ in range(3):
                broker.refresh()
            with broker.connect() as after:
                assert serial(after) == old
            broker.paths.broker.unlink()
            broker.refresh()
            with broker.connect() as after:
                assert serial(after) == old
        assert caplog.text.count("keeps its certificate, the new one cannot be used") == 2
        assert "PRIVATE" not in caplog.text

    def test_a_client_that_is_no_longer_trusted_is_refused_when_it_connects_again(self, tmp_path: Path) -> None:
        other = create_certificates(tmp_path / "other", HOSTS)
        with TlsBroker(tmp_path, {"ssl.client.auth": "required"}, clients=["alice"]) as broker:
            context = broker.context("alice")
            with broker.connect(context) as alice:
                ask(alice)
                session = alice.session
            os.replace(other.ca, broker.paths.ca.with_name("new.pem"))
            trusted = broker.context("alice")
            os.replace(broker.paths.ca.with_name("new.pem"), broker.paths.ca)
            broker.refresh()
            assert session is not None
            with pytest.raises((ssl.SSLError, ConnectionResetError)), broker.connect(trusted) as alice:
                ask(alice)

    def test_configs_that_change_at_run_time_count_for_new_clients(self, tmp_path: Path) -> None:
        other = create_certificates(tmp_path / "other", HOSTS)
        with TlsBroker(tmp_path) as broker:
            admin = AdminClient(
                {
                    "bootstrap.servers": broker.bootstrap,
                    "security.protocol": "SSL",
                    "ssl.ca.location": str(broker.paths.ca),
                }
            )

            def alter(location: str) -> None:
                entry = ConfigEntry(
                    "listener.name.ssl.ssl.keystore.location",
                    location,
                    incremental_operation=AlterConfigOpType.SET,
                )
                resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
                next(iter(admin.incremental_alter_configs([resource]).values())).result(WAIT_SECONDS)

            with pytest.raises(KafkaException, match="Cannot read /not/there"):
                alter("/not/there")
            with broker.connect() as client:
                assert ask(client) == 7
            alter(str(other.broker))
            broker.refresh()
            with broker.connect(ssl.create_default_context(cafile=str(other.ca))) as client:
                assert ask(client) == 7
