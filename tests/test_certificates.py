"""Certificates for trying out."""

from __future__ import annotations

import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509

from penstock.certificates import CertificateError, Identity, create_certificates, make_certificates


def handshake(tmp_path: Path, broker: Identity, ca: str, host: str, client: Identity | None = None) -> ssl.SSLObject:
    """Have a client that trusts `ca` connect to a server with the broker's certificate; returns the server's side."""
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (tmp_path / "keys.pem").write_text(broker.pem)
    server_context.load_cert_chain(tmp_path / "keys.pem")
    client_context = ssl.create_default_context(cadata=ca)
    client_context.verify_flags |= ssl.VERIFY_X509_STRICT
    if client is not None:
        server_context.load_verify_locations(cadata=ca)
        server_context.verify_mode = ssl.CERT_REQUIRED
        (tmp_path / "client.pem").write_text(client.pem)
        client_context.load_cert_chain(tmp_path / "client.pem")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    connecting = client_context.wrap_bio(to_client, to_server, server_hostname=host)
    for _ in range(4):
        for side in (connecting, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert connecting.version() == server.version() == "TLSv1.3"
    return server


@pytest.mark.parametrize("host", ["broker.example", "127.0.0.1", "::1"])
def test_a_strict_client_takes_the_broker_by_each_of_its_hosts(tmp_path: Path, host: str) -> None:
    made = make_certificates(["broker.example", "127.0.0.1", "::1"])
    handshake(tmp_path, made.broker, made.authority.certificate, host)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tmp_path, made.broker, made.authority.certificate, "other.example")


def test_a_client_certificate_names_the_client(tmp_path: Path) -> None:
    made = make_certificates(["localhost"], ["alice"])
    server = handshake(tmp_path, made.broker, made.authority.certificate, "localhost", made.clients["alice"])
    certificate = server.getpeercert()
    assert certificate is not None
    assert certificate["subject"] == ((("commonName", "alice"),),)


def test_two_authorities_do_not_vouch_for_each_other(tmp_path: Path) -> None:
    mine, other = make_certificates(["localhost"]), make_certificates(["localhost"])
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tmp_path, mine.broker, other.authority.certificate, "localhost")


class TestFiles:
    def test_those_with_keys_are_for_their_owner_only(self, tmp_path: Path) -> None:
        paths = create_certificates(tmp_path / "tls", ["localhost"], ["alice"])
        for path in (paths.ca_key, paths.broker, paths.clients["alice"]):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "PRIVATE KEY" not in paths.ca.read_text()
        assert sorted(path.name for path in (tmp_path / "tls").iterdir()) == [
            "broker.pem",
            "ca-key.pem",
            "ca.pem",
            "client-alice.pem",
        ]

    def test_an_authority_that_is_there_signs_further_certificates(self, tmp_path: Path) -> None:
        first = create_certificates(tmp_path, ["localhost"])
        ca, broker = first.ca.read_text(), first.broker.read_text()
        create_certificates(tmp_path, ["localhost"], ["bob"])
        assert first.ca.read_text() == ca
        assert first.broker.read_text() != broker
        signed = x509.load_pem_x509_certificate((tmp_path / "client-bob.pem").read_bytes())
        signed.verify_directly_issued_by(x509.load_pem_x509_certificate(ca.encode()))

    @pytest.mark.parametrize("name", ["", "../alice", ".hidden"])
    def test_a_client_whose_name_is_no_file_name_is_refused(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(CertificateError, match="names a file"):
            create_certificates(tmp_path, ["localhost"], [name])

    def test_a_folder_that_cannot_be_written_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(CertificateError, match="cannot write certificates to"):
            create_certificates(tmp_path / "file" / "tls", ["localhost"])


def test_a_broker_without_hosts_is_refused() -> None:
    with pytest.raises(CertificateError, match="at least one host"):
        make_certificates([])


def test_keys_are_not_printed() -> None:
    made = make_certificates(["localhost"])
    assert "PRIVATE" not in repr(made)
