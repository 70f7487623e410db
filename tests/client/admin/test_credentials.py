"""Users and their passwords, kept by a broker as SCRAM credentials."""

from __future__ import annotations

import base64

import pytest

from penstock.client import Admin
from penstock.client.admin import ScramCredentialInfo, ScramDeletion, ScramMechanism, ScramUpsertion
from penstock.client.admin.credentials import _salted
from penstock.client.errors import UsageError
from penstock.wire.errors import ResourceNotFound, UnacceptableCredential

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


def test_a_password_is_salted_as_rfc_7677_does_it() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    sent = _salted(ScramUpsertion("user", "pencil", SHA_256, 4096, salt))
    assert base64.b64encode(bytes(sent.salted_password)) == b"xKSVEDI6tPlSysH6mUQZOeeOp01r6B3fcJbodRPcYV0="
    assert (sent.name, sent.mechanism, sent.iterations, sent.salt) == ("user", 1, 4096, salt)


def test_every_password_gets_a_salt_of_its_own() -> None:
    first, second = (_salted(ScramUpsertion("alice", "secret")) for _ in range(2))
    assert first.salt != second.salt
    assert first.salted_password != second.salted_password


def test_a_password_is_not_shown_with_the_request_for_it() -> None:
    assert "hush" not in repr(ScramUpsertion("alice", "hush", salt=b"hush"))


async def test_credentials_are_set_described_and_deleted(admin: Admin) -> None:
    outcome = await admin.alter_user_scram_credentials(
        [ScramUpsertion("alice", "secret"), ScramUpsertion("alice", "secret", SHA_256, 8192)]
    )
    assert outcome == {"alice": None}
    try:
        found = await admin.describe_user_scram_credentials(["alice", "nobody"])
        assert {user: set(infos) for user, infos in found.items()} == {
            "alice": {ScramCredentialInfo(SHA_256, 8192), ScramCredentialInfo(SHA_512, 4096)}
        }
        assert "alice" in await admin.describe_user_scram_credentials()
    finally:
        assert await admin.alter_user_scram_credentials(
            deletions=[ScramDeletion("alice", SHA_256), ScramDeletion("alice", SHA_512)]
        ) == {"alice": None}
    assert await admin.describe_user_scram_credentials(["alice"]) == {}


async def test_what_is_refused_is_told_by_user(admin: Admin) -> None:
    outcome = await admin.alter_user_scram_credentials(
        [ScramUpsertion("bob", "secret", iterations=1)], [ScramDeletion("nobody", SHA_512)]
    )
    assert isinstance(outcome["bob"], UnacceptableCredential)
    assert isinstance(outcome["nobody"], ResourceNotFound)
    with pytest.raises(UsageError):
        await admin.alter_user_scram_credentials()
