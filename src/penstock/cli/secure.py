"""`penstock serve --secure`: everything that a broker needs to be reachable from a network, set up on first use.

It creates a certificate with an authority of its own (`tls/` in the data folder), a user `admin` with a generated
password, SCRAM over TLS, and access control with `admin` as super user. Later starts use what exists: the authority
stays the same, so clients continue to trust it; the broker's certificate is renewed when it is about to expire or the
broker gets another name.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.data_folder import DataFolder
from penstock.cli.failures import Failure
from penstock.cli.passwords import GENERATED_BYTES, hand_out

if TYPE_CHECKING:
    from penstock.certificates import CertificatePaths

ADMIN = "admin"
FOLDER = "tls"
_EVERY_INTERFACE = ("", "0.0.0.0", "::")
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
_RENEWED_DAYS_BEFORE = 30
_CONFIGS = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{ADMIN}",
}


@dataclass(frozen=True, slots=True)
class Setup:
    configs: dict[str, str]
    """Broker configs; those that the user sets count before them."""
    lines: list[str]
    """What to tell the user before the broker starts."""


def set_up(data: Path, addresses: Iterable[str], configs: Mapping[str, str]) -> Setup:
    """Make what is missing. A keystore that the user has configured is used in place of a certificate of our own."""
    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise Failure(
            f"Cannot create the data folder {data}: {error.strerror}. Name another one with --data, or let the user "
            "who runs the broker write there."
        ) from error
    found = dict(_CONFIGS)
    lines = []
    trust = "the authority that signed your certificate"
    if not any(name.startswith("ssl.keystore.") or ".ssl.keystore." in name for name in configs):
        paths = _certificates(data / FOLDER, hosts_of(addresses))
        found |= paths.broker_configs()
        trust = str(paths.ca.resolve())
    folder = DataFolder(data)
    if not folder.users():
        password = secrets.token_urlsafe(GENERATED_BYTES)
        folder.set_password(ADMIN, password)
        lines.append(f"created user {ADMIN}")
        lines.append(hand_out(ADMIN, password, data))
    lines += [
        "clients connect with",
        "  security.protocol=SASL_SSL",
        "  sasl.mechanism=SCRAM-SHA-512",
        f"  sasl.username={ADMIN}  (add others: penstock user add, penstock acl add)",
        f"  ssl.ca.location={trust}",
    ]
    return Setup(found, lines)


def authority_of(data: Path) -> Path | None:
    """The certificate of the authority that `set_up` has made in a data folder, if it has."""
    from penstock.certificates import CA_FILE

    path = data / FOLDER / CA_FILE
    return path if path.exists() else None


def hosts_of(addresses: Iterable[str]) -> list[str]:
    """The names under which clients may reach the broker: those of its addresses, this machine's, and loopback."""
    hosts = []
    for address in addresses:
        host = address.strip().rpartition("://")[2].rpartition(":")[0].strip("[]")
        if host not in _EVERY_INTERFACE:
            hosts.append(host)
    return list(dict.fromkeys([*hosts, socket.gethostname(), *_THIS_MACHINE]))


def _certificates(folder: Path, hosts: list[str]) -> CertificatePaths:
    from penstock.certificates import (
        BROKER_FILE,
        CA_FILE,
        CA_KEY_FILE,
        CertificateError,
        CertificatePaths,
        create_certificates,
    )

    paths = CertificatePaths(folder / CA_FILE, folder / CA_KEY_FILE, folder / BROKER_FILE, {})
    try:
        if paths.broker.exists() and _still_fits(paths.broker, hosts):
            return paths
        return create_certificates(folder, hosts)
    except (CertificateError, OSError) as error:
        raise Failure(f"The certificate in {folder} cannot be made or read: {error}") from error


def _still_fits(path: Path, hosts: list[str]) -> bool:
    """Whether a certificate is for all of these hosts, and valid for a while."""
    from datetime import UTC, datetime, timedelta

    try:
        from cryptography import x509
    except ModuleNotFoundError:
        return True  # it was made elsewhere, and cannot be looked into here

    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    known = {str(name.value) for name in names}
    until = certificate.not_valid_after_utc
    return known.issuperset(hosts) and until - datetime.now(UTC) > timedelta(days=_RENEWED_DAYS_BEFORE)
