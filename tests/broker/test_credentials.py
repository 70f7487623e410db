"""The users of a broker: what is found, what is made up, and who hears of changes."""

from __future__ import annotations

from penstock.broker.credentials import Users
from penstock.broker.users import remove_user, set_password
from penstock.catalog.contract import CredentialRow
from penstock.catalog.memory import MemoryCatalog
from penstock.security import scram
from penstock.security.scram import ScramMechanism

SHA_256, SHA_512 = ScramMechanism


def row(user: str, mechanism: ScramMechanism = SHA_256, iterations: int = 4096, password: str = "p") -> CredentialRow:
    made = scram.credential_of(mechanism, password, b"salt of " + user.encode(), iterations)
    return CredentialRow(user, mechanism, iterations, made.salt, made.stored_key, made.server_key)


def test_users_of_the_catalog_are_found() -> None:
    catalog = MemoryCatalog()
    set_password(catalog, "alice", "secret")
    users = Users(catalog)
    found = users.find("alice", SHA_512)
    assert found is not None
    assert scram.matches(SHA_512, found, "secret")
    assert users.names() == ["alice"]
    assert users.iterations("alice") == {SHA_256: 4096, SHA_512: 4096}


def test_who_does_not_exist_has_a_made_up_credential_that_stays_the_same_over_a_restart() -> None:
    catalog = MemoryCatalog()
    users = Users(catalog)
    users.change([row("alice", iterations=8192)])
    made_up = users.look_up("nobody", SHA_256)
    assert users.find("nobody", SHA_256) is None
    assert made_up.iterations == 8192
    assert Users(catalog).look_up("nobody", SHA_256) == made_up
    assert users.look_up("alice", SHA_256) == users.find("alice", SHA_256)


def test_made_up_credentials_look_like_most_of_those_that_exist() -> None:
    users = Users(MemoryCatalog())
    users.change([row("a", iterations=5000), row("b", iterations=5000), row("c", iterations=6000)])
    assert users.look_up("nobody", SHA_256).iterations == 5000


def test_a_password_is_checked_with_the_strongest_mechanism_and_with_the_same_for_who_does_not_exist() -> None:
    users = Users(MemoryCatalog())
    users.change([row("alice"), row("old", SHA_256)])
    assert users.look_up_any("alice").mechanism is users.look_up_any("nobody").mechanism is SHA_256
    users.change([row("alice", SHA_512)])
    assert users.look_up_any("alice").mechanism is users.look_up_any("nobody").mechanism is SHA_512


def test_replaced_and_deleted_credentials_are_told_and_new_ones_are_not() -> None:
    users = Users(MemoryCatalog())
    notified: list[frozenset[str]] = []
    users.on_changed.append(notified.append)
    users.change([row("alice"), row("bob")])
    users.change([row("alice", SHA_512)])
    assert notified == []
    users.change([row("alice", password="other")], [("bob", SHA_256)])
    assert notified == [frozenset({"alice", "bob"})]
    assert users.names() == ["alice"]


def test_changes_are_in_the_catalog() -> None:
    catalog = MemoryCatalog()
    Users(catalog).change([row("alice")])
    assert Users(catalog).names() == ["alice"]
    remove_user(catalog, "alice")
    assert Users(catalog).names() == []
