"""Certificates for trying out: an authority, a certificate for a broker, and certificates for clients.

Keys are on the P-256 curve, which every Kafka client knows and which makes quick handshakes. Files are PEM: one that
holds a key holds its certificate chain as well, as `ssl.keystore.location` wants it, and only its owner can read it.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, GeneralName, KeyUsage, Name

CA_FILE = "ca.pem"
CA_KEY_FILE = "ca-key.pem"
BROKER_FILE = "broker.pem"
_CA_DAYS = 3650
_DAYS = 825


class CertificateError(Exception):
    """Certificates could not be made; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A key and its certificate, in PEM."""

    key: str
    certificate: str

    def __repr__(self) -> str:
        return "Identity(...)"

    @property
    def pem(self) -> str:
        """Both in one text, as a keystore of type PEM wants them."""
        return self.key + self.certificate


@dataclass(frozen=True, slots=True)
class Certificates:
    """What `make_certificates` makes, in memory."""

    authority: Identity
    broker: Identity
    clients: dict[str, Identity]

    def broker_configs(self, prefix: str = "") -> dict[str, str]:
        """Broker configs that serve TLS with them. `prefix` may be a listener's, `listener.name.NAME.`"""
        return {
            f"{prefix}ssl.keystore.type": "PEM",
            f"{prefix}ssl.keystore.key": self.broker.key,
            f"{prefix}ssl.keystore.certificate.chain": self.broker.certificate,
            f"{prefix}ssl.truststore.type": "PEM",
            f"{prefix}ssl.truststore.certificates": self.authority.certificate,
        }


@dataclass(frozen=True, slots=True)
class CertificatePaths:
    """Where `create_certificates` has put them."""

    ca: Path
    """The authority's certificate: what clients trust, and what the broker trusts to have signed a client's."""
    ca_key: Path
    broker: Path
    """The broker's key and certificate."""
    clients: dict[str, Path]
    """A key and certificate for each client."""

    def broker_configs(self, prefix: str = "") -> dict[str, str]:
        """Broker configs that serve TLS with them. `prefix` may be a listener's, `listener.name.NAME.`"""
        return {
            f"{prefix}ssl.keystore.type": "PEM",
            f"{prefix}ssl.keystore.location": str(self.broker),
            f"{prefix}ssl.truststore.type": "PEM",
            f"{prefix}ssl.truststore.location": str(self.ca),
        }


def make_certificates(
    hosts: Sequence[str], clients: Sequence[str] = (), *, authority: Identity | None = None, days: int = _DAYS
) -> Certificates:
    """Make a broker certificate for `hosts` (names or addresses) and one for each client, in memory.

    They are signed by `authority`, or else by one that is made for them. A client's certificate has the subject
    CN=NAME. Raises CertificateError.
    """
    if not hosts:
        raise CertificateError("a broker certificate needs at least one host name or address that clients connect to")
    authority = authority or make_authority()
    broker = _issue(authority, hosts[0], [_general_name(host) for host in hosts], days)
    return Certificates(authority, broker, {name: _issue(authority, name, [], days) for name in clients})


def make_authority(name: str = "Penstock CA", days: int = _CA_DAYS) -> Identity:
    _need_cryptography()
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    since, until = _validity(days)
    subject = _subject(name)
    public = key.public_key()
    certificate = (
        x509.CertificateBuilder(subject, subject, public, x509.random_serial_number(), since, until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _identity(key, certificate)


def create_certificates(folder: Path, hosts: Sequence[str], clients: Sequence[str] = ()) -> CertificatePaths:
    """Make certificates as `make_certificates` does, and write them to files in `folder`.

    An authority that is in the folder already signs the new ones, so that whoever trusts it goes on to do so; a broker
    certificate that is there is replaced in one step. Raises CertificateError.
    """
    paths = CertificatePaths(
        folder / CA_FILE,
        folder / CA_KEY_FILE,
        folder / BROKER_FILE,
        {name: _client_path(folder, name) for name in clients},
    )
    try:
        has_authority = paths.ca.exists() and paths.ca_key.exists()
        authority = Identity(paths.ca_key.read_text(), paths.ca.read_text()) if has_authority else None
        made = make_certificates(hosts, clients, authority=authority)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not has_authority:
            _write(paths.ca_key, made.authority.key, secret=True)
            _write(paths.ca, made.authority.certificate, secret=False)
        _write(paths.broker, made.broker.pem, secret=True)
        for name, path in paths.clients.items():
            _write(path, made.clients[name].pem, secret=True)
    except OSError as error:
        raise CertificateError(f"cannot write certificates to {folder}: {error.strerror}") from error
    return paths


def _client_path(folder: Path, name: str) -> Path:
    if not name or name.startswith(".") or "/" in name or "\0" in name:
        raise CertificateError(f"{name!r} cannot be the name of a client's certificate: it names a file as well")
    return folder / f"client-{name}.pem"


def _issue(authority: Identity, name: str, hosts: list[GeneralName], days: int) -> Identity:
    """A certificate for a broker, if it has hosts, or else for a client."""
    _need_cryptography()
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    try:
        issuer = x509.load_pem_x509_certificate(authority.certificate.encode())
        signing_key = serialization.load_pem_private_key(authority.key.encode(), None)
    except (ValueError, TypeError) as error:
        raise CertificateError(f"the authority's certificate or key cannot be read: {error}") from error
    assert isinstance(signing_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key()
    since, until = _validity(days)
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH] if hosts else []
    builder = (
        x509.CertificateBuilder(issuer.subject, _subject(name), public, x509.random_serial_number(), since, until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([*purposes, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()), critical=False)
    )
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    return _identity(key, builder.sign(signing_key, hashes.SHA256()))


def _general_name(host: str) -> GeneralName:
    _need_cryptography()
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError as error:
        raise CertificateError(f"{host!r} is not a host name: {error}") from error


def _subject(name: str) -> Name:
    from cryptography import x509

    try:
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    except ValueError as error:
        raise CertificateError(f"{name!r} cannot be the name in a certificate: {error}") from error


def _key_usage(*, signs_certificates: bool) -> KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _validity(days: int) -> tuple[datetime, datetime]:
    """From a day ago, because clocks differ."""
    from datetime import UTC, datetime, timedelta

    now = datetime.now(UTC)
    return now - timedelta(days=1), now + timedelta(days=days)


def _identity(key: EllipticCurvePrivateKey, certificate: Certificate) -> Identity:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return Identity(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
        certificate.public_bytes(Encoding.PEM).decode(),
    )


def _write(path: Path, text: str, *, secret: bool) -> None:
    """Write a file in one step, so that a broker which reads it again never sees half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if secret else 0o644)
    with open(descriptor, "w") as file:
        file.write(text)
    temporary.replace(path)


def _need_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise CertificateError(
            "making certificates needs the package cryptography: pip install 'penstock[security]'"
        ) from error
