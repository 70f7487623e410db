"""The certificates of a simulated world: always the same, and with signatures that have always the same length."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_FROM, _UNTIL = datetime.datetime(2020, 1, 1), datetime.datetime(2120, 1, 1)
_HOSTS = ("broker", "broker-1", "broker-2", "broker-3")


class Pem(NamedTuple):
    authority: str
    key: str
    certificate: str

    def configs(self, listener: str) -> dict[str, str]:
        """Of brokers. They ask for a certificate, so they send no tickets, whose lengths differ now and then."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": self.key,
            "ssl.keystore.certificate.chain": self.certificate,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": self.authority,
            f"listener.name.{listener.lower()}.ssl.client.auth": "requested",
        }

    def context(self) -> ssl.SSLContext:
        """Of clients."""
        return ssl.create_default_context(cadata=self.authority)


@cache
def pem(hosts: Sequence[str] = _HOSTS) -> Pem:
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.x509.oid import NameOID

    def key(number: int) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)

    def certificate(name: str, number: int, issuer: str, extensions: Sequence[x509.ExtensionType]) -> str:
        subject, signer = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each)]) for each in (name, issuer))
        builder = x509.CertificateBuilder(signer, subject, key(number).public_key(), number, _FROM, _UNTIL)
        for extension in extensions:
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        signed = builder.sign(key(1), None)
        return signed.public_bytes(serialization.Encoding.PEM).decode()

    names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
    private = key(2).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Pem(
        certificate("authority", 1, "authority", [x509.BasicConstraints(True, None)]),
        private.decode(),
        certificate("broker", 2, "authority", [x509.BasicConstraints(False, None), names]),
    )
