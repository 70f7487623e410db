"""Keystores and truststores: from `ssl.keystore.*` and `ssl.truststore.*` to PEM in memory.

PEM and PKCS12 are read. Java's own JKS is not, and Java itself has written PKCS12 for years whatever a file is called,
so what a file holds decides where its type is JKS, which is Kafka's default. Nothing that is decrypted here, and no key
that is given in the configs, is ever written to a disk.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.broker.config import ConfigError, ListenerConfig

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

_JKS_MAGIC = b"\xfe\xed\xfe\xed"
_PEM_BLOCK = re.compile(r"-{5}BEGIN ([A-Z0-9 ]+)-{5}(.*?)-{5}END \1-{5}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Keystore:
    pem: bytes
    """A private key, which may be encrypted, and its certificate chain."""
    password: str
    """Of the key, if it is encrypted."""

    def __repr__(self) -> str:
        return "Keystore(...)"


def read_keystore(config: ListenerConfig) -> Keystore:
    """The key and the certificate that a listener shows to its clients. Raises ConfigError with what to do."""
    key, chain = config.text("ssl.keystore.key"), config.text("ssl.keystore.certificate.chain")
    location = config.text("ssl.keystore.location")
    if bool(key) != bool(chain):
        raise ConfigError(
            "ssl.keystore.key and ssl.keystore.certificate.chain belong together: set both, or neither and "
            "ssl.keystore.location"
        )
    if key and location:
        raise ConfigError("Cannot accept both ssl.keystore.location and ssl.keystore.key. Remove one of them.")
    if not key and not location:
        raise ConfigError(
            "TLS needs a key and a certificate: set ssl.keystore.type=PEM and ssl.keystore.location to a file with "
            "both. `penstock tls create` makes one for trying out."
        )
    if key:
        _check_inline(config, "keystore")
        return Keystore(_pem(key + "\n" + chain), config.text("ssl.key.password"))
    data = _read("ssl.keystore.location", location)
    if _type(config, "keystore", location, data) == "PEM":
        _check_no_password(config, "keystore")
        pem = _pem(data.decode("utf-8", "replace"))
        if b"PRIVATE KEY-----" not in pem or b"BEGIN CERTIFICATE-----" not in pem:
            raise ConfigError(
                f"{location} (ssl.keystore.location) must hold a private key and its certificate chain, both in PEM: "
                f"cat key.pem certificate.pem > {location}"
            )
        return Keystore(pem, config.text("ssl.key.password"))
    return Keystore(_key_of_pkcs12(config, location, data), "")


def read_truststore(config: ListenerConfig) -> bytes:
    """The certificates that a listener trusts to have signed its clients', in PEM; empty when none are configured."""
    inline, location = config.text("ssl.truststore.certificates"), config.text("ssl.truststore.location")
    if inline and location:
        raise ConfigError(
            "Cannot accept both ssl.truststore.location and ssl.truststore.certificates. Remove one of them."
        )
    if inline:
        _check_inline(config, "truststore")
        return _pem(inline)
    if not location:
        return b""
    data = _read("ssl.truststore.location", location)
    if _type(config, "truststore", location, data) == "PEM":
        _check_no_password(config, "truststore")
        pem = _pem(data.decode("utf-8", "replace"))
    else:
        pem = _certificates_of_pkcs12(config, location, data)
    if b"BEGIN CERTIFICATE-----" not in pem:
        raise ConfigError(f"{location} (ssl.truststore.location) holds no certificate.")
    return pem


def _type(config: ListenerConfig, store: str, location: str, data: bytes) -> str:
    """PEM or PKCS12: as it is configured, or else as the file says."""
    name = f"ssl.{store}.type"
    configured = config.text(name).upper() if config.is_set(name) else "JKS"
    if configured not in ("PEM", "PKCS12", "JKS"):
        raise ConfigError(
            f"Cannot accept {name}={config.text(name)}: Penstock reads PEM and PKCS12. Convert the store."
        )
    if data.startswith(_JKS_MAGIC):
        target = Path(location).with_suffix(".p12")
        raise ConfigError(
            f"Cannot accept {location} (ssl.{store}.location): Penstock does not read JKS. Convert it with "
            f"`keytool -importkeystore -srckeystore {location} -destkeystore {target} -deststoretype PKCS12`, and set "
            f"{name}=PKCS12 and ssl.{store}.location={target}."
        )
    if configured != "JKS":
        return configured
    return "PEM" if b"-----BEGIN " in data else "PKCS12"


def _check_inline(config: ListenerConfig, store: str) -> None:
    name = f"ssl.{store}.type"
    if config.is_set(name) and config.text(name).upper() != "PEM":
        raise ConfigError(
            f"Cannot accept {name}={config.text(name)} with keys or certificates in the configs. Use PEM."
        )
    _check_no_password(config, store)


def _check_no_password(config: ListenerConfig, store: str) -> None:
    if config.text(f"ssl.{store}.password"):
        instead = "Use ssl.key.password for an encrypted key." if store == "keystore" else "Remove it."
        raise ConfigError(f"Cannot accept ssl.{store}.password with ssl.{store}.type=PEM. {instead}")


def _read(name: str, location: str) -> bytes:
    try:
        return Path(location).read_bytes()
    except OSError as error:
        raise ConfigError(f"Cannot read {location} ({name}): {error.strerror}.") from error


def _pem(text: str) -> bytes:
    """PEM as OpenSSL reads it, from text that may have lost its line ends on the way through a config file."""
    blocks = []
    for label, body in _PEM_BLOCK.findall(text):
        if ":" not in body:  # the header of an encrypted key in OpenSSL's own format keeps its lines
            packed = "".join(body.split())
            body = "\n" + "\n".join(packed[at : at + 64] for at in range(0, len(packed), 64)) + "\n"
        blocks.append(f"-----BEGIN {label}-----{body}-----END {label}-----\n")
    return "".join(blocks).encode()


def _pkcs12(config: ListenerConfig, store: str, location: str, data: bytes) -> PKCS12KeyAndCertificates:
    try:
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError as error:
        raise ConfigError(
            f"{location} (ssl.{store}.location) is PKCS12, which needs the package cryptography: "
            "pip install 'penstock[security]'"
        ) from error
    try:
        return load_pkcs12(data, config.text(f"ssl.{store}.password").encode() or None)
    except (ValueError, TypeError) as error:
        raise ConfigError(
            f"Cannot read {location} (ssl.{store}.location) as PKCS12: ssl.{store}.password is wrong, or the file is "
            f"damaged. `openssl pkcs12 -info -noout -in {location}` checks it."
        ) from error


def _key_of_pkcs12(config: ListenerConfig, location: str, data: bytes) -> bytes:
    store = _pkcs12(config, "keystore", location, data)
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    if store.key is None or store.cert is None:
        raise ConfigError(f"{location} (ssl.keystore.location) holds no private key with a certificate.")
    chain = [store.cert, *store.additional_certs]
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return key + b"".join(each.certificate.public_bytes(Encoding.PEM) for each in chain)


def _certificates_of_pkcs12(config: ListenerConfig, location: str, data: bytes) -> bytes:
    store = _pkcs12(config, "truststore", location, data)
    from cryptography.hazmat.primitives.serialization import Encoding

    found = [store.cert] if store.cert is not None else []
    return b"".join(each.certificate.public_bytes(Encoding.PEM) for each in [*found, *store.additional_certs])
