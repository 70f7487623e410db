"""The SASL exchange without a connection, against the server's side of each mechanism."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.client.authentication import Authenticator, authenticate, renewal_after_s
from penstock.client.config import ClientConfig, load
from penstock.client.errors import AuthenticationFailed, UsageError
from penstock.security.failures import AuthenticationFailed as MechanismFailed
from penstock.security.oauthbearer import error_challenge, parse_client_first
from penstock.security.plain import parse
from penstock.security.scram import ScramMechanism, ScramServer, credential_of
from penstock.wire import messages as m
from penstock.wire.api import API_TABLE
from penstock.wire.conversation import Conversation
from penstock.wire.errors import ErrorCode

Receive = Callable[[bytes], bytes]


def settings(mechanism: str, **more: object) -> ClientConfig:
    return load(ClientConfig, None, {"security_protocol": "sasl_plaintext", "sasl_mechanism": mechanism, **more})


def authenticator(mechanism: str, **more: object) -> Authenticator:
    made = Authenticator.of(settings(mechanism, **more))
    assert made is not None
    return made


def conversation() -> Conversation:
    made = Conversation("broker:9092", "test")
    keys = [
        m.ApiVersionsResponse.ApiVersion(api_key=info.key, min_version=info.min_version, max_version=info.max_version)
        for info in API_TABLE.values()
    ]
    made.learn(m.ApiVersionsResponse(api_keys=keys))
    return made


def lead(who: Authenticator, receive: Receive, lifetime_ms: int = 0) -> int:
    """Lead an exchange with a broker that has the mechanism and answers tokens by `receive`."""
    exchange = authenticate(conversation(), "broker:9092", who, who.begin_blocking())
    question = next(exchange)
    try:
        while True:
            request, _, _ = question
            if isinstance(request, m.SaslHandshakeRequest):
                answer: m.Message = m.SaslHandshakeResponse(mechanisms=[request.mechanism])
            else:
                assert isinstance(request, m.SaslAuthenticateRequest)
                try:
                    token = receive(bytes(request.auth_bytes))
                    answer = m.SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=lifetime_ms)
                except MechanismFailed as error:
                    answer = m.SaslAuthenticateResponse(
                        error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=str(error)
                    )
            question = exchange.send(answer)
    except StopIteration as over:
        value = over.value
        assert isinstance(value, int)
        return value


def scram_server(mechanism: ScramMechanism, password: str) -> ScramServer:
    return ScramServer(mechanism, "nonce", lambda user: credential_of(mechanism, password, b"salt", 4096))


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
def test_scram_proves_the_password_and_learns_how_long_the_session_lasts(mechanism: ScramMechanism) -> None:
    who = authenticator(mechanism.sasl_name, sasl_username="a,b", sasl_password="right")
    server = scram_server(mechanism, "right")
    assert lead(who, server.receive, lifetime_ms=60_000) == 60_000
    assert server.complete
    assert server.user == "a,b"


def test_a_wrong_password_is_told_with_the_user_and_without_the_password() -> None:
    who = authenticator("SCRAM-SHA-512", sasl_username="billing", sasl_password="wrong")
    with pytest.raises(AuthenticationFailed) as caught:
        lead(who, scram_server(ScramMechanism.SCRAM_SHA_512, "right").receive)
    assert "refuses user 'billing' (SCRAM-SHA-512): Authentication failed" in str(caught.value)
    assert "wrong" not in str(caught.value)
    assert not caught.value.retriable


def test_a_server_that_does_not_know_the_password_is_not_trusted() -> None:
    who = authenticator("SCRAM-SHA-256", sasl_username="billing", sasl_password="right")
    server = scram_server(ScramMechanism.SCRAM_SHA_256, "right")

    def impostor(token: bytes) -> bytes:
        answer = server.receive(token)
        return b"v=" + b"A" * 43 + b"=" if server.complete else answer

    with pytest.raises(AuthenticationFailed, match="does not know the password"):
        lead(who, impostor)


JAAS_OF = "org.apache.kafka.common.security.{}LoginModule required "


@pytest.mark.parametrize(
    "given",
    [
        {"sasl_username": "alice", "sasl_password": "pass word"},
        {"sasl_jaas_config": JAAS_OF.format("plain.Plain") + 'username="alice" password="pass word";'},
    ],
)
def test_plain_sends_user_and_password_from_settings_or_jaas(given: dict[str, object]) -> None:
    seen = []

    def receive(token: bytes) -> bytes:
        seen.append(parse(token))
        return b""

    lead(authenticator("PLAIN", **given), receive)
    assert [(login.user, login.password) for login in seen] == [("alice", "pass word")]


def test_oauthbearer_sends_the_token_with_its_extensions() -> None:
    seen = []

    def receive(token: bytes) -> bytes:
        seen.append(parse_client_first(token))
        return b""

    who = authenticator(
        "OAUTHBEARER", sasl_oauth_token_provider=lambda: ("abc", 4e9), sasl_oauthbearer_extensions="pool=x,cluster=y"
    )
    lead(who, receive)
    assert (seen[0].token, seen[0].extensions) == ("abc", {"pool": "x", "cluster": "y"})


def test_a_token_that_is_refused_is_told_with_what_the_broker_says() -> None:
    who = authenticator("OAUTHBEARER", sasl_oauth_token_provider=lambda: ("abc", 4e9))

    def receive(token: bytes) -> bytes:
        if token != b"\x01":
            return error_challenge()
        raise MechanismFailed("invalid_token")

    with pytest.raises(AuthenticationFailed, match=r"refuses the token \(OAUTHBEARER\): invalid_token"):
        lead(who, receive)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "does not take sasl_mechanism 'PLAIN'; it offers SCRAM-SHA-512, X"),
        (ErrorCode.ILLEGAL_SASL_STATE, "authenticates nobody with SASL on this listener"),
        (ErrorCode.UNKNOWN_SERVER_ERROR, "refuses to authenticate"),
    ],
)
def test_a_handshake_that_is_refused_says_what_the_broker_offers(code: ErrorCode, message: str) -> None:
    who = authenticator("PLAIN", sasl_username="a", sasl_password="b")
    exchange = authenticate(conversation(), "broker:9092", who, who.begin_blocking())
    next(exchange)
    with pytest.raises(AuthenticationFailed, match=message):
        exchange.send(m.SaslHandshakeResponse(error_code=code, mechanisms=["SCRAM-SHA-512", "X"]))


@pytest.mark.parametrize(
    ("jaas", "message"),
    [
        ("nonsense", "cannot be read"),
        (JAAS_OF.format("plain.Plain") + 'username="a" password="b";', "but SCRAM-SHA-512 is done by ScramLoginModule"),
        (JAAS_OF.format("scram.Scram") + 'username="a";', "must have options username"),
    ],
)
def test_a_jaas_entry_that_does_not_fit_is_refused(jaas: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        authenticator("SCRAM-SHA-512", sasl_jaas_config=jaas)


def test_nobody_authenticates_without_sasl() -> None:
    assert Authenticator.of(ClientConfig()) is None


def test_a_session_is_renewed_before_it_ends() -> None:
    assert all(8.5 <= renewal_after_s(10_000) <= 9.5 for _ in range(100))


def test_a_session_is_not_renewed_sooner_than_brokers_allow() -> None:
    assert renewal_after_s(500) >= 1
