"""JAAS entries as Kafka's users write them, and errors that keep secrets."""

from __future__ import annotations

import pytest

from penstock.security.jaas import PLAIN_LOGIN_MODULE, JaasError, parse_jaas, parse_jaas_entry


def test_an_entry_has_a_module_and_options() -> None:
    entry = parse_jaas_entry(f'{PLAIN_LOGIN_MODULE} required username="alice" password="it\'s; \\"x\\"=1";')
    assert entry.login_module == PLAIN_LOGIN_MODULE
    assert entry.username == "alice"
    assert entry.password == 'it\'s; "x"=1'


def test_a_broker_names_its_users() -> None:
    entry = parse_jaas_entry(
        f"""{PLAIN_LOGIN_MODULE} REQUIRED
            username=admin password=admin-secret // the broker itself
            /* and its clients */
            user_admin="admin-secret"
            user_alice='wonder land';"""
    )
    assert entry.users == {"admin": "admin-secret", "alice": "wonder land"}


def test_a_client_names_extensions() -> None:
    entry = parse_jaas_entry('a.b.OAuthBearerLoginModule required clientId="me" extension_logicalCluster="lkc-1" ;')
    assert entry.extensions == {"logicalCluster": "lkc-1"}
    assert entry.options["clientId"] == "me"
    assert entry.username is None


def test_there_may_be_several_entries_but_not_for_one_client() -> None:
    text = "a.B required; c.D optional x=1;"
    assert [entry.login_module for entry in parse_jaas(text)] == ["a.B", "c.D"]
    with pytest.raises(JaasError, match="2"):
        parse_jaas_entry(text)


@pytest.mark.parametrize(
    ("written", "meant"), [(r"a\tb", "a\tb"), (r"a\\b", "a\\b"), (r"\101", "A"), (r"\x", "x"), ("ü€", "ü€")]
)
def test_a_backslash_escapes_in_quotes(written: str, meant: str) -> None:
    assert parse_jaas_entry(f'a.B required password="{written}";').password == meant


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  // nothing\n",
        PLAIN_LOGIN_MODULE,
        f"{PLAIN_LOGIN_MODULE} required",
        f'{PLAIN_LOGIN_MODULE} password="hunter2";',
        f'{PLAIN_LOGIN_MODULE} required password="hunter2"',
        f'{PLAIN_LOGIN_MODULE} required password "hunter2";',
        f"{PLAIN_LOGIN_MODULE} required password=;",
        f'{PLAIN_LOGIN_MODULE} required password="hunter2;',
        f"{PLAIN_LOGIN_MODULE} required password=hunter2!;",
        f"{PLAIN_LOGIN_MODULE} hunter2 password=x;",
        f'{PLAIN_LOGIN_MODULE} required username="alice" "hunter2";',
        "hunter2;",
    ],
)
def test_an_error_does_not_repeat_a_secret(text: str) -> None:
    with pytest.raises(JaasError) as error:
        parse_jaas(text)
    if not text.startswith("hunter2"):
        assert "hunter2" not in str(error.value)


def test_the_text_of_an_entry_holds_no_option() -> None:
    assert "hunter2" not in repr(parse_jaas_entry("a.B required password=hunter2;"))
