"""Users of a data folder."""

from __future__ import annotations

import hashlib
import hmac

from penstock.broker.users import has_user, remove_user, set_password
from penstock.catalog.contract import CredentialRow
from penstock.catalog.memory import MemoryCatalog


def _accepts(row: CredentialRow, password: str) -> bool:
    """What a server does with the proof of RFC 5802, by an independent way."""
    hash_name = {1: "sha256", 2: "sha512"}[row.mechanism]
    salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), row.salt, row.iterations)
    client_key = hmac.new(salted, b"Client Key", hash_name).digest()
    server_key = hmac.new(salted, b"Server Key", hash_name).digest()
    return (hashlib.new(hash_name, client_key).digest(), server_key) == (row.stored_key, row.server_key)


def test_a_user_gets_a_credential_for_every_mechanism() -> None:
    catalog = MemoryCatalog()
    set_password(catalog, "alice", "secret")
    rows = catalog.credentials()
    assert [(row.user, row.mechanism) for row in rows] == [("alice", 1), ("alice", 2)]
    assert all(_accepts(row, "secret") and not _accepts(row, "Secret") for row in rows)


def test_a_changed_password_replaces_the_old_one_with_a_new_salt() -> None:
    catalog = MemoryCatalog()
    set_password(catalog, "alice", "secret")
    before = catalog.credentials()
    set_password(catalog, "alice", "secret")
    after = catalog.credentials()
    assert len(after) == len(before) == 2
    assert not {row.salt for row in before} & {row.salt for row in after}


def test_a_removed_user_leaves_the_others() -> None:
    catalog = MemoryCatalog()
    for user in ("alice", "bob"):
        set_password(catalog, user, "secret")
    remove_user(catalog, "alice")
    assert not has_user(catalog, "alice")
    assert has_user(catalog, "bob")
