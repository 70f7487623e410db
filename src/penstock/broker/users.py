"""Users of a data folder: what is kept of a password, for every SCRAM mechanism."""

from __future__ import annotations

import secrets

from penstock.catalog.contract import Catalog, CredentialRow
from penstock.security.scram import MIN_ITERATIONS, ScramMechanism, credential_of

_SALT_BYTES = 24


def set_password(catalog: Catalog, user: str, password: str) -> None:
    """Add a user, or change a user's password. A client may then use whichever mechanism it can."""
    catalog.change_credentials([_credential(user, password, mechanism) for mechanism in ScramMechanism], [])


def remove_user(catalog: Catalog, user: str) -> None:
    catalog.change_credentials([], [(user, int(mechanism)) for mechanism in ScramMechanism])


def has_user(catalog: Catalog, user: str) -> bool:
    return any(row.user == user for row in catalog.credentials())


def _credential(user: str, password: str, mechanism: ScramMechanism) -> CredentialRow:
    made = credential_of(mechanism, password, secrets.token_bytes(_SALT_BYTES), MIN_ITERATIONS)
    return CredentialRow(user, int(mechanism), made.iterations, made.salt, made.stored_key, made.server_key)
