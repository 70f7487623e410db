"""Keystores and truststores, from files and from the configs themselves."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from penstock.broker.config import BrokerConfig, ConfigError, ListenerConfig
from penstock.broker.tls_stores import read_keystore, read_truststore
from penstock.certificates import Certificates, make_certificates


@pytest.fixture(scope="module")
def made() -> Certificates:
    return make_certificates(["localhost"])


def configured(**configs: str) -> ListenerConfig:
    names = {f"ssl.{name.replace('_', '.')}": value for name, value in configs.items()}
    return BrokerConfig(names).for_listener("SSL")


def keys_in(pem: bytes) -> object:
    """The numbers of the key, whatever its format."""
    return serialization.load_pem_private_key(pem, None).private_numbers()  # type: ignore[union-attr]


def write(folder: Path, name: str, content: bytes | str) -> str:
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(folder / name)


def in_pkcs12(made: Certificates, password: bytes) -> bytes:
    certificate = x509.load_pem_x509_certificate(made.broker.certificate.encode())
    authority = x509.load_pem_x509_certificate(made.authority.certificate.encode())
    key = serialization.load_pem_private_key(made.broker.key.encode(), None)
    encryption = serialization.BestAvailableEncryption(password)
    return pkcs12.serialize_key_and_certificates(b"broker", key, certificate, [authority], encryption)  # type: ignore[arg-type]


class TestKeystores:
    @pytest.mark.parametrize("configs", [{}, {"keystore_type": "PEM"}])
    def test_a_file_in_pem_holds_key_and_certificate(
        self, tmp_path: Path, made: Certificates, configs: dict[str, str]
    ) -> None:
        location = write(tmp_path, "broker", made.broker.pem)
        assert read_keystore(configured(keystore_location=location, **configs)).pem.decode() == made.broker.pem

    @pytest.mark.parametrize("separator", ["\n", " ", ""])
    def test_the_configs_may_hold_them_even_without_line_ends(self, made: Certificates, separator: str) -> None:
        configs = configured(
            keystore_key=made.broker.key.replace("\n", separator),
            keystore_certificate_chain=(made.broker.certificate + made.authority.certificate).replace("\n", separator),
        )
        assert read_keystore(configs).pem.decode() == made.broker.pem + made.authority.certificate

    @pytest.mark.parametrize("name", ["broker.p12", "broker.jks", "broker"])
    @pytest.mark.parametrize("kind", ["", "PKCS12", "JKS"])
    def test_pkcs12_is_read_whatever_it_is_called(
        self, tmp_path: Path, made: Certificates, name: str, kind: str
    ) -> None:
        location = write(tmp_path, name, in_pkcs12(made, b"secret"))
        given = {"keystore_type": kind} if kind else {}
        pem = read_keystore(configured(keystore_location=location, keystore_password="secret", **given)).pem
        assert keys_in(pem) == keys_in(made.broker.key.encode())
        certificates = x509.load_pem_x509_certificates(pem)
        assert [each.subject.rfc4514_string() for each in certificates] == ["CN=localhost", "CN=Penstock CA"]

    def test_a_wrong_password_is_not_repeated(self, tmp_path: Path, made: Certificates) -> None:
        location = write(tmp_path, "broker.p12", in_pkcs12(made, b"secret"))
        with pytest.raises(ConfigError, match=r"ssl\.keystore\.password is wrong") as raised:
            read_keystore(configured(keystore_location=location, keystore_password="hunter2"))
        assert "hunter2" not in str(raised.value)

    def test_jks_is_refused_with_the_command_that_converts_it(self, tmp_path: Path) -> None:
        location = write(tmp_path, "broker.jks", b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
        target = tmp_path / "broker.p12"
        command = f"keytool -importkeystore -srckeystore {location} -destkeystore {target} -deststoretype PKCS12"
        with pytest.raises(ConfigError) as raised:
            read_keystore(configured(keystore_location=location))
        assert command in str(raised.value)
        assert f"ssl.keystore.type=PKCS12 and ssl.keystore.location={target}" in str(raised.value)

    @pytest.mark.parametrize(
        ("configs", "message"),
        [
            ({}, "penstock tls create"),
            ({"keystore_key": "k"}, "belong together"),
            ({"keystore_key": "k", "keystore_certificate_chain": "c", "keystore_location": "/x"}, "Remove one of them"),
            ({"keystore_key": "k", "keystore_certificate_chain": "c", "keystore_type": "JKS"}, "Use PEM"),
            ({"keystore_location": "/not/there"}, r"Cannot read /not/there \(ssl.keystore.location\): No such file"),
        ],
    )
    def test_what_does_not_fit_together_is_refused(self, configs: dict[str, str], message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            read_keystore(configured(**configs))

    def test_a_password_that_pem_has_no_use_for_is_refused(self, tmp_path: Path, made: Certificates) -> None:
        location = write(tmp_path, "broker.pem", made.broker.pem)
        with pytest.raises(ConfigError, match=r"Use ssl\.key\.password"):
            read_keystore(configured(keystore_location=location, keystore_type="PEM", keystore_password="x"))

    def test_other_types_are_refused(self, tmp_path: Path) -> None:
        location = write(tmp_path, "broker.bcfks", b"...")
        with pytest.raises(ConfigError, match="reads PEM and PKCS12"):
            read_keystore(configured(keystore_location=location, keystore_type="BCFKS"))

    def test_a_file_without_a_key_is_refused(self, tmp_path: Path, made: Certificates) -> None:
        location = write(tmp_path, "broker.pem", made.broker.certificate)
        with pytest.raises(ConfigError, match="must hold a private key and its certificate chain"):
            read_keystore(configured(keystore_location=location))


class TestTruststores:
    def test_there_need_not_be_one(self) -> None:
        assert read_truststore(configured()) == b""

    def test_certificates_are_in_a_file_or_in_the_configs(self, tmp_path: Path, made: Certificates) -> None:
        location = write(tmp_path, "ca.pem", made.authority.certificate)
        expected = made.authority.certificate.encode()
        assert read_truststore(configured(truststore_location=location)) == expected
        assert read_truststore(configured(truststore_certificates=made.authority.certificate)) == expected

    @pytest.mark.skipif(shutil.which("keytool") is None, reason="needs keytool")
    def test_what_keytool_makes_is_read(self, tmp_path: Path, made: Certificates) -> None:
        certificate = write(tmp_path, "ca.pem", made.authority.certificate)
        location = tmp_path / "trust.jks"
        options = ["-alias", "ca", "-file", certificate, "-keystore", str(location), "-storepass", "secret"]
        subprocess.run(["keytool", "-importcert", "-noprompt", *options], check=True, capture_output=True)
        pem = read_truststore(configured(truststore_location=str(location), truststore_password="secret"))
        assert pem.decode() == made.authority.certificate

    def test_one_without_a_certificate_is_refused(self, tmp_path: Path, made: Certificates) -> None:
        location = write(tmp_path, "ca.pem", made.broker.key)
        with pytest.raises(ConfigError, match="holds no certificate"):
            read_truststore(configured(truststore_location=location))
