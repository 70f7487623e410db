"""TLS of a broker as a client of others: what it trusts, what it shows, and configs that could not work."""

from __future__ import annotations

import logging
import os
import ssl
from pathlib import Path

import pytest

from penstock.broker.config import BrokerConfig, ConfigError
from penstock.broker.tls import TlsServer
from penstock.broker.tls_client import TlsClient
from penstock.certificates import Certificates, create_certificates, make_certificates
from penstock.security.protocols import SecurityProtocol

HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def made() -> Certificates:
    return make_certificates([HOST])


@pytest.fixture(scope="module")
def foreign() -> Certificates:
    return make_certificates([HOST])


def check(configs: dict[str, str], host: str = HOST) -> None:
    config = BrokerConfig(configs).for_listener("INSIDE")
    TlsClient(config, "INSIDE").check(TlsServer(config, "INSIDE", SecurityProtocol.SSL).context, host)


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("client_auth", ["none", "required"])
def test_brokers_with_certificates_of_one_authority_reach_each_other(
    made: Certificates, client_auth: str, protocol: str
) -> None:
    check({**made.broker_configs(), "ssl.client.auth": client_auth, "ssl.enabled.protocols": protocol})


def test_configs_may_be_those_of_the_listener_alone(made: Certificates) -> None:
    check(made.broker_configs("listener.name.inside."))
    with pytest.raises(ConfigError, match=r"set ssl\.keystore\.type"):
        check(made.broker_configs("listener.name.outside."))


@pytest.mark.parametrize("client_auth", ["none", "required"])
def test_an_authority_that_others_do_not_trust_is_refused(
    made: Certificates, foreign: Certificates, client_auth: str
) -> None:
    configs = {**made.broker_configs(), "ssl.client.auth": client_auth}
    configs["ssl.truststore.certificates"] = foreign.authority.certificate
    with pytest.raises(ConfigError, match=r"listener INSIDE.* ssl\.truststore\.location has to hold the authority"):
        check(configs)


def test_without_a_truststore_the_authorities_of_the_system_are_trusted(made: Certificates) -> None:
    configs = {name: value for name, value in made.broker_configs().items() if "truststore" not in name}
    with pytest.raises(ConfigError, match="local issuer"):
        check(configs)


def test_a_certificate_for_another_host_is_refused_unless_that_is_switched_off(made: Certificates) -> None:
    with pytest.raises(ConfigError, match=r"has to be for broker-1\.example, which it advertises"):
        check(made.broker_configs(), "broker-1.example")
    check({**made.broker_configs(), "ssl.endpoint.identification.algorithm": ""}, "broker-1.example")
    with pytest.raises(ConfigError, match="use https, or nothing"):
        check({**made.broker_configs(), "ssl.endpoint.identification.algorithm": "ldaps"})


def test_a_listener_with_nothing_in_common_is_refused(made: Certificates) -> None:
    config = BrokerConfig(made.broker_configs()).for_listener("INSIDE")
    server = TlsServer(config, "INSIDE", SecurityProtocol.SSL).context
    server.maximum_version = ssl.TLSVersion.TLSv1_2
    newer = BrokerConfig({**made.broker_configs(), "ssl.enabled.protocols": "TLSv1.3"}).for_listener("INSIDE")
    with pytest.raises(ConfigError, match="could not reach each other through listener INSIDE: "):
        TlsClient(newer, "INSIDE").check(server, HOST)


def test_files_that_have_changed_are_read_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    paths = create_certificates(tmp_path, [HOST])
    client = TlsClient(BrokerConfig(paths.broker_configs()).for_listener("INSIDE"), "INSIDE")
    first = client.context()
    assert client.context() is first
    good, at = paths.broker.read_text(), paths.broker.stat().st_mtime_ns
    paths.broker.write_text("no certificate")
    with caplog.at_level(logging.ERROR):
        assert client.context() is first
    assert "keep their certificates" in caplog.text
    paths.broker.write_text(good)
    os.utime(paths.broker, ns=(at + 1, at + 1))
    assert client.context() is not first
