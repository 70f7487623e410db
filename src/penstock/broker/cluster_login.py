"""As whom the brokers of a cluster authenticate with each other.

Where brokers share a catalog, they share its secret, which nobody else can read. From it comes the password of a user
that only brokers know, and that is not kept anywhere. SCRAM never sends it. Whoever has logged in so is no `User` but a
`Broker`, which no certificate, token or credential of a user can become, and counts as a super user.
"""

from __future__ import annotations

import hashlib
import hmac

from penstock.security.principals import Principal
from penstock.security.scram import MIN_ITERATIONS, Credential, ScramMechanism, credential_of

BROKERS_USER = "__penstock_brokers"
BROKERS = Principal("Broker", BROKERS_USER)

_SALT_BYTES = 24


def password(secret: bytes) -> str:
    return _derived(secret, b"password of brokers").hex()


def credential(secret: bytes, mechanism: ScramMechanism) -> Credential:
    """What a login of another broker is checked against. Few iterations do: there is nothing to guess."""
    salt = _derived(secret, b"salt of brokers")[:_SALT_BYTES]
    return credential_of(mechanism, password(secret), salt, MIN_ITERATIONS)


def _derived(secret: bytes, use: bytes) -> bytes:
    return hmac.digest(secret, use, hashlib.sha256)
