"""OAUTHBEARER: messages, signatures and claims of tokens."""

from __future__ import annotations

import base64
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from penstock.security.failures import AuthenticationFailed, MalformedToken
from penstock.security.oauthbearer import (
    ERROR_ANSWER,
    ClaimRules,
    OAuthBearerClient,
    PublicKeys,
    UnknownKey,
    check_claims,
    error_challenge,
    parse_client_first,
    parse_key_set,
    verify_signature,
)

NOW_MS = 1_700_000_000_000
NOW = NOW_MS // 1000
RSA_KEY = rsa.generate_private_key(65537, 2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
ED_KEY = ed25519.Ed25519PrivateKey.generate()


def jwk(key: Any, algorithm: type[Any], **more: str) -> dict[str, Any]:
    return {**json.loads(algorithm.to_jwk(key.public_key())), **more}


RSA_JWK = jwk(RSA_KEY, jwt.algorithms.RSAAlgorithm, kid="r")
KEYS = PublicKeys(
    [RSA_JWK, jwk(EC_KEY, jwt.algorithms.ECAlgorithm, kid="e"), jwk(ED_KEY, jwt.algorithms.OKPAlgorithm, kid="d")]
)


def claims(**changed: object) -> dict[str, object]:
    everything = {"sub": "alice", "iat": NOW - 10, "exp": NOW + 600, **changed}
    return {name: value for name, value in everything.items() if value is not None}


def signed(key: Any = RSA_KEY, algorithm: str = "RS256", kid: str | None = "r") -> str:
    return jwt.encode(claims(), key, algorithm, {"kid": kid} if kid else None)


# Messages


def test_a_server_reads_what_a_client_writes() -> None:
    first = parse_client_first(OAuthBearerClient("a.b-c_d", {"traceId": "12 3", "tenant": "x=y"}).first())
    assert first.token == "a.b-c_d"
    assert first.extensions == {"traceId": "12 3", "tenant": "x=y"}
    assert first.authzid == ""
    assert "a.b-c_d" not in repr(first)


def test_a_client_may_name_an_authorization_id_and_write_bearer_as_it_likes() -> None:
    first = parse_client_first(b"n,a=al=2Cice,\x01auth=bEARER  tok\x01\x01")
    assert (first.authzid, first.token) == ("al,ice", "tok")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer tok\x01",
        b"y,,\x01auth=Bearer tok\x01\x01",
        b"n,,\x01auth=Basic tok\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer t\xc3\xa4\x01\x01",
        b"n,,\x01host=x\x01\x01",
        b"n,,\x01auth=Bearer tok\x01a1=x\x01\x01",
        b"\xff",
    ],
)
def test_other_messages_are_malformed(message: bytes) -> None:
    with pytest.raises(MalformedToken):
        parse_client_first(message)


@pytest.mark.parametrize("extensions", [{"auth": "x"}, {"a1": "x"}, {"a": ""}, {"a": "x\x01y"}, {"": "x"}])
def test_a_client_does_not_send_extensions_that_cannot_be_read(extensions: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="extension"):
        OAuthBearerClient("token", extensions)


def test_a_client_does_not_send_a_token_that_would_break_the_message() -> None:
    with pytest.raises(ValueError, match="bearer token") as error:
        OAuthBearerClient("to\x01ken")
    assert "ken" not in str(error.value).replace("token", "")


def test_a_client_is_done_when_the_server_answers_nothing() -> None:
    client = OAuthBearerClient("token")
    assert client.receive(b"") is None
    assert client.complete


def test_a_client_answers_an_error_so_that_the_server_can_fail() -> None:
    client = OAuthBearerClient("token")
    assert json.loads(error_challenge()) == {"status": "invalid_token"}
    assert client.receive(error_challenge()) == ERROR_ANSWER
    with pytest.raises(AuthenticationFailed, match="invalid_token"):
        client.receive(b"")
    assert not client.complete


# Signatures


@pytest.mark.parametrize(
    ("key", "algorithm", "kid"),
    [(RSA_KEY, "RS256", "r"), (RSA_KEY, "PS512", "r"), (EC_KEY, "ES256", "e"), (ED_KEY, "EdDSA", "d")],
)
@pytest.mark.parametrize("names_key", [True, False])
def test_a_token_signed_by_a_known_key_is_taken(key: Any, algorithm: str, kid: str, names_key: bool) -> None:
    assert verify_signature(signed(key, algorithm, kid if names_key else None), KEYS)["sub"] == "alice"


def test_a_token_signed_by_another_key_is_refused() -> None:
    other = rsa.generate_private_key(65537, 2048)
    with pytest.raises(AuthenticationFailed, match="signature"):
        verify_signature(signed(other), KEYS)


def test_a_key_that_is_not_there_is_told_apart_because_it_may_be_new() -> None:
    with pytest.raises(UnknownKey):
        verify_signature(signed(kid="later"), KEYS)


def test_changed_claims_break_the_signature() -> None:
    head, _, signature = signed().split(".")
    payload = base64.urlsafe_b64encode(json.dumps(claims(sub="admin")).encode()).rstrip(b"=").decode()
    with pytest.raises(AuthenticationFailed, match="signature"):
        verify_signature(f"{head}.{payload}.{signature}", KEYS)


def test_a_token_without_a_signature_is_refused() -> None:
    with pytest.raises(AuthenticationFailed, match="asymmetric"):
        verify_signature(jwt.encode(claims(), "", "none"), KEYS)


def test_a_public_key_is_not_taken_for_a_shared_secret() -> None:
    secret = base64.urlsafe_b64decode(RSA_JWK["n"] + "==")
    with pytest.raises(AuthenticationFailed, match="asymmetric"):
        verify_signature(jwt.encode(claims(), secret, "HS256", {"kid": "r"}), KEYS)


def test_an_algorithm_does_not_use_a_key_of_another_kind() -> None:
    with pytest.raises(AuthenticationFailed):
        verify_signature(signed(EC_KEY, "ES256", "r"), KEYS)


def test_a_key_made_for_one_algorithm_is_not_used_with_another() -> None:
    keys = PublicKeys([{**RSA_JWK, "alg": "RS512"}])
    with pytest.raises(AuthenticationFailed):
        verify_signature(signed(), keys)


@pytest.mark.parametrize("token", ["", "a", "a.b.c", "..", "e30.e30.", "e30.e30.e30"])
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(AuthenticationFailed):
        verify_signature(token, KEYS)


def test_shared_secrets_keys_for_encryption_and_short_keys_are_left_out_of_a_key_set() -> None:
    short = jwk(rsa.generate_private_key(65537, 1024), jwt.algorithms.RSAAlgorithm)
    keys = [{"kty": "oct", "k": "AAAA"}, {**RSA_JWK, "use": "enc"}, short, {}, RSA_JWK]
    assert len(parse_key_set(json.dumps({"keys": keys}).encode())) == 1


@pytest.mark.parametrize("document", [b"", b"[]", b"{}", b'{"keys":{}}', b'{"keys":[1]}', b"[" * 100_000, b"\xff"])
def test_what_is_no_key_set_is_refused(document: bytes) -> None:
    with pytest.raises(ValueError, match="key set"):
        parse_key_set(document)


# Claims


def check(rules: ClaimRules | None = None, **changed: object) -> Any:
    return check_claims(claims(**changed), NOW_MS, rules or ClaimRules())


def test_a_token_stands_for_its_subject_until_it_expires() -> None:
    bearer = check(scope="read write")
    assert bearer.principal == "alice"
    assert bearer.expires_at_ms == NOW_MS + 600_000
    assert bearer.scopes == {"read", "write"}


def test_other_claims_may_name_principal_and_scopes() -> None:
    rules = ClaimRules(principal_claim="client_id", scope_claim="scp")
    bearer = check(rules, client_id="billing", scp=["a", "b"])
    assert bearer.principal == "billing"
    assert bearer.scopes == {"a", "b"}


@pytest.mark.parametrize(
    "changed",
    [
        {"exp": NOW - 30},
        {"exp": None},
        {"exp": "tomorrow"},
        {"exp": True},
        {"exp": 1e300},
        {"exp": float("nan")},
        {"iat": NOW + 31},
        {"iat": None},
        {"nbf": NOW + 31},
        {"nbf": []},
        {"sub": None},
        {"sub": " "},
        {"sub": 1},
        {"aud": "someone"},
        {"aud": [1]},
        {"scope": {}},
    ],
)
def test_a_token_with_bad_claims_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(AuthenticationFailed):
        check(**changed)


@pytest.mark.parametrize("changed", [{"exp": NOW - 29}, {"iat": NOW + 30}, {"nbf": NOW + 30}])
def test_clocks_may_differ_by_the_skew(changed: dict[str, Any]) -> None:
    assert check(**changed).principal == "alice"


def test_the_issuer_is_the_expected_one() -> None:
    rules = ClaimRules(issuer="https://id.example")
    assert check(rules, iss="https://id.example").principal == "alice"
    for other in (None, "https://id.example/", ["https://id.example"]):
        with pytest.raises(AuthenticationFailed, match="issuer"):
            check(rules, iss=other)


def test_one_of_the_audiences_is_expected() -> None:
    rules = ClaimRules(audiences=["kafka", "penstock"])
    assert check(rules, aud="penstock").principal == "alice"
    assert check(rules, aud=["web", "kafka"]).principal == "alice"
    others: tuple[object, ...] = (None, "web", [])
    for other in others:
        with pytest.raises(AuthenticationFailed, match="audience"):
            check(rules, aud=other)
