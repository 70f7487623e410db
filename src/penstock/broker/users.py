"""Users of a data folder: what is kept of a password, for every SCRAM mechanism."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from penstock.catalog.contract import Catalog, CredentialRow
from penstock.wire.scram import DEFAULT_ITERATIONS, ScramMechanism

_SALT_BYTES = 24


def set_password(catalog: Catalog, user: str, password: str) -> None:
    """Add a user, or change a user's password. A client may then use whichever mechanism it can."""
    catalog.change_credentials([_credential(user, password, mechanism) for mechanism in ScramMechanism], [])


def remove_user(catalog: Catalog, user: str) -> None:
    catalog.change_credentials([], [(user, int(mechanism)) for mechanism in ScramMechanism])


def has_user(catalog: Catalog, user: str) -> bool:
    return any(row.user == user for row in catalog.credentials())


def _credential(user: str, password: str, mechanism: ScramMechanism) -> CredentialRow:
    salt = secrets.token_bytes(_SALT_BYTES)
    hash_name = mechanism.hash_name
    salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, DEFAULT_ITERATIONS)
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    return CredentialRow(
        user,
        int(mechanism),
        DEFAULT_ITERATIONS,
        salt,
        hashlib.new(hash_name, client_key).digest(),
        hmac.digest(salted, b"Server Key", hash_name),
    )
