"""What messages of a mechanism lead to."""

from __future__ import annotations

from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from penstock.broker.credentials import Users
from penstock.broker.key_sets import KeySet
from penstock.broker.mechanisms import (
    Challenge,
    JaasPlainExchange,
    OAuthBearerExchange,
    PlainExchange,
    Step,
    Success,
    TokenRefused,
)
from penstock.broker.password_checks import PasswordChecks
from penstock.broker.users import set_password
from penstock.catalog.memory import MemoryCatalog
from penstock.security.failures import AuthenticationFailed
from penstock.security.oauthbearer import ERROR_ANSWER, ClaimRules, OAuthBearerClient
from tests.broker.test_key_sets import Threads

KEY = ec.generate_private_key(ec.SECP256R1())
NOW_MS = 1_000_000


def jwks(key: Any = KEY, key_id: str = "k") -> bytes:
    import json

    found = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()))
    return json.dumps({"keys": [{**found, "kid": key_id}]}).encode()


def token(key: Any = KEY, key_id: str = "k", **claims: object) -> bytes:
    everything = {"sub": "alice", "iat": NOW_MS // 1000, "exp": NOW_MS // 1000 + 60, **claims}
    return OAuthBearerClient(jwt.encode(everything, key, "ES256", {"kid": key_id})).first()


class Tokens:
    """An exchange of OAUTHBEARER with keys that can be changed."""

    def __init__(self) -> None:
        self.world = Threads()
        self.document = jwks()
        self.keys = KeySet("file:///keys", 3_600_000, self.world, lambda url: self.document)
        self.keys.start()
        self.world.pass_ms(0)
        self.exchange = OAuthBearerExchange(self.keys, ClaimRules(), lambda: NOW_MS)
        self.steps: list[Step] = []

    def send(self, message: bytes) -> Step:
        self.exchange.receive(message, self.steps.append)
        self.world.pass_ms(0)
        return self.steps[-1]


def test_a_good_token_stands_for_its_user_until_it_expires() -> None:
    tokens = Tokens()
    assert tokens.send(token()) == Success("alice", b"", NOW_MS + 60_000)
    assert tokens.exchange.user == "alice"


def test_a_bad_token_gets_an_error_and_fails_when_the_client_has_answered_it() -> None:
    tokens = Tokens()
    assert tokens.send(token(exp=1)) == Challenge(b'{"status":"invalid_token"}')
    refused = tokens.send(ERROR_ANSWER)
    assert isinstance(refused, TokenRefused)
    assert str(refused) == '{"status":"invalid_token"}'
    assert refused.why == "the token has expired"


def test_a_good_token_after_a_bad_one_comes_too_late() -> None:
    tokens = Tokens()
    tokens.send(token(exp=1))
    assert isinstance(tokens.send(token()), AuthenticationFailed)


def test_a_key_that_is_not_there_is_waited_for() -> None:
    tokens = Tokens()
    tokens.world.pass_ms(10_000)
    new = ec.generate_private_key(ec.SECP256R1())
    tokens.document = jwks(new, "new")
    step = tokens.send(token(new, "new"))
    assert isinstance(step, Success)


def test_a_key_that_does_not_come_is_refused() -> None:
    tokens = Tokens()
    tokens.world.pass_ms(10_000)
    assert isinstance(tokens.send(token(key_id="never")), Challenge)
    other = OAuthBearerExchange(tokens.keys, ClaimRules(), lambda: NOW_MS)
    other.receive(token(key_id="never"), tokens.steps.append)
    assert isinstance(tokens.steps[-1], Challenge)


def test_the_authorization_of_somebody_else_is_refused() -> None:
    tokens = Tokens()
    message = token().replace(b"n,,", b"n,a=admin,", 1)
    assert isinstance(tokens.send(message), Challenge)
    assert "somebody else" in str(getattr(tokens.send(ERROR_ANSWER), "why", ""))


def test_passwords_of_a_jaas_configuration_are_compared() -> None:
    steps: list[Step] = []
    for password in (b"secret", b"wrong", b""):
        JaasPlainExchange({"alice": "secret"}).receive(b"\0alice\0" + password, steps.append)
    JaasPlainExchange({"alice": "secret"}).receive(b"\0nobody\0secret", steps.append)
    assert steps[0] == Success("alice")
    assert all(isinstance(step, AuthenticationFailed) for step in steps[1:])
    assert str(steps[1]) == str(steps[3])


def test_passwords_of_users_are_checked_in_a_thread() -> None:
    catalog, world = MemoryCatalog(), Threads()
    set_password(catalog, "alice", "secret")
    steps: list[Step] = []
    exchange = PlainExchange(Users(catalog), PasswordChecks(world))
    exchange.receive(b"\0alice\0secret", steps.append)
    assert exchange.user == "alice"
    assert steps == []
    world.pass_ms(0)
    assert steps == [Success("alice")]
