"""A certificate authority of our own, for brokers and clients that are measured and tested over TLS."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Identity:
    """Somebody's certificate and private key, as PEM files."""

    certificate: Path
    key: Path


class Authority:
    """Vouches for whomever it issues a certificate. Its own is in `certificate`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(self._name, self._key).add_extension(x509.BasicConstraints(True, 0), critical=True)
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = builder.add_extension(usage, critical=True)
        self.certificate = folder / f"{name}.pem"
        self.certificate.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))

    def issue(self, name: str, *addresses: str) -> Identity:
        """A certificate for CN=`name`, valid at these addresses (host names or IP addresses) if it is a server's."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = self._builder(subject, key)
        builder = builder.add_extension(x509.BasicConstraints(False, None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(authority, critical=False)
        if addresses:
            alternatives = x509.SubjectAlternativeName([_general_name(address) for address in addresses])
            builder = builder.add_extension(alternatives, critical=False)
        made = Identity(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        made.certificate.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))
        made.key.touch(mode=0o600)
        made.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return made

    def client_context(self, identity: Identity | None = None) -> ssl.SSLContext:
        """For a client that trusts this authority, and shows `identity` if it is asked for a certificate."""
        context = ssl.create_default_context(cafile=str(self.certificate))
        if identity is not None:
            context.load_cert_chain(identity.certificate, identity.key)
        return context

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder(self._name, subject, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - _DAY).not_valid_after(now + 30 * _DAY)
        return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def pem_store(identity: Identity) -> Path:
    """Key and certificate in one file, as Kafka wants a PEM keystore."""
    store = identity.certificate.with_suffix(".store.pem")
    store.touch(mode=0o600)
    store.write_bytes(identity.key.read_bytes() + identity.certificate.read_bytes())
    return store


def broker_settings(authority: Authority, broker: Identity, *, client_auth: str = "none") -> dict[str, str]:
    """Kafka's names for a broker's certificate and for the authority whose clients it believes."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(pem_store(broker)),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "ssl.client.auth": client_auth,
    }


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _general_name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)
