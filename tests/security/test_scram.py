"""SCRAM against the vectors of RFC 7677, both sides against each other, and what a server does not reveal."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.security import scram
from penstock.security.failures import AuthenticationFailed, MalformedToken
from penstock.security.scram import Credential, ScramClient, ScramMechanism, ScramServer

SHA_256 = ScramMechanism.SCRAM_SHA_256
SHA_512 = ScramMechanism.SCRAM_SHA_512
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
NONCES = CLIENT_NONCE + SERVER_NONCE
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
SECRET = bytes(range(32))

VECTORS = {
    SHA_256: (  # RFC 7677, section 3
        "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ),
    SHA_512: (  # the same names, nonces and salt; test_scram_java holds it against Kafka's implementation
        "gMGXRcevScNtxZ6/8lQYpGtnsNAc3mGcmNomv+xnoOMw+3R2xNJdMNnzMlTN8PPC6wdp6dybEmDYXYTxwnYPJQ==",
        "ZQnYEgWQMFmmsM8aQMF0nDDCy/AgCzkwk8CmMZYcMg0vSVlKDanekLtifDSeVGT4+5ZxXnJq199RVG2rR7N7Zw==",
    ),
}


def server(mechanism: ScramMechanism, password: str = "pencil", user: str = "user") -> ScramServer:
    credential = scram.credential_of(mechanism, password, SALT, 4096)

    def look_up(name: str) -> Credential:
        return credential if name == user else scram.made_up_credential(mechanism, SECRET, name, credential)

    return ScramServer(mechanism, SERVER_NONCE, look_up)


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_an_exchange_is_that_of_the_vectors(mechanism: ScramMechanism) -> None:
    proof, signature = VECTORS[mechanism]
    client = ScramClient(mechanism, "user", "pencil", CLIENT_NONCE)
    ours = server(mechanism)
    assert client.first() == f"n,,n=user,r={CLIENT_NONCE}".encode()
    challenge = ours.receive(client.first())
    assert challenge == f"r={NONCES},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    final = client.receive(challenge)
    assert final == f"c=biws,r={NONCES},p={proof}".encode()
    assert not ours.complete
    answer = ours.receive(final)
    assert answer == f"v={signature}".encode()
    assert client.receive(answer) is None
    assert client.complete
    assert ours.complete
    assert ours.user == "user"


@settings(max_examples=20)
@given(
    user=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1),
    password=st.text(st.characters(exclude_categories=["Cs"])),
)
def test_every_user_and_password_gets_in(user: str, password: str) -> None:
    client = ScramClient(SHA_256, user, password, CLIENT_NONCE)
    ours = server(SHA_256, password, user)
    final = client.receive(ours.receive(client.first()))
    assert final is not None
    client.receive(ours.receive(final))
    assert client.complete
    assert ours.user == user


def test_a_wrong_password_fails_at_the_proof() -> None:
    client = ScramClient(SHA_512, "user", "wrong", CLIENT_NONCE)
    ours = server(SHA_512)
    final = client.receive(ours.receive(client.first()))
    assert final is not None
    with pytest.raises(AuthenticationFailed, match="Invalid user credentials"):
        ours.receive(final)
    assert not ours.complete


def test_an_unknown_user_gets_the_same_salt_each_time_and_fails_at_the_proof() -> None:
    challenges = set()
    for _ in range(2):
        client = ScramClient(SHA_512, "nobody", "pencil", CLIENT_NONCE)
        ours = server(SHA_512)
        challenge = ours.receive(client.first())
        challenges.add(challenge)
        final = client.receive(challenge)
        assert final is not None
        with pytest.raises(AuthenticationFailed, match="Invalid user credentials"):
            ours.receive(final)
    assert len(challenges) == 1


def test_made_up_credentials_differ_by_user_mechanism_and_secret() -> None:
    made_up = [
        scram.made_up_credential(mechanism, secret, name)
        for mechanism in ScramMechanism
        for secret in (SECRET, bytes(32))
        for name in ("alice", "bob")
    ]
    assert len({each.salt for each in made_up}) == len(made_up)
    assert len({each.stored_key for each in made_up}) == len(made_up)


@pytest.mark.parametrize("salt", [bytes(range(100, 116)), b"1a2b3c4d5e6f7g8h9i0j1k2l3m", bytes(200)])
def test_made_up_credentials_look_like_those_that_exist(salt: bytes) -> None:
    like = scram.credential_of(SHA_256, "pencil", salt, 8192)
    made_up = scram.made_up_credential(SHA_256, SECRET, "nobody", like)
    assert len(made_up.salt) == len(salt)
    assert made_up.salt.isalnum() == salt.isalnum()
    assert made_up.iterations == 8192
    assert len(made_up.stored_key) == len(like.stored_key)
    assert len(made_up.server_key) == len(like.server_key)


def test_a_password_is_checked_against_a_credential() -> None:
    credential = scram.credential_of(SHA_512, "pencil", SALT, 4096)
    assert scram.matches(SHA_512, credential, "pencil")
    assert not scram.matches(SHA_512, credential, "Pencil")


def test_a_credential_of_a_salted_password_is_that_of_the_password() -> None:
    salted = scram.salted_password(SHA_256, "pencil", SALT, 4096)
    assert scram.credential_of_salted(SHA_256, salted, SALT, 4096) == scram.credential_of(SHA_256, "pencil", SALT, 4096)


def test_a_credential_shows_no_key() -> None:
    assert repr(scram.credential_of(SHA_256, "pencil", SALT, 4096)) == "Credential(iterations=4096)"


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,n=user",
        b"y,,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,,n=us=er,r=abc",
        b"n,,n=,r=abc",
        b"n,,n=user,r=",
        b"n,,n=user,r=a b",
        b"n,,m=ext,n=user,r=abc",
        b"n,,n=\xff,r=abc",
        b"n,,n=user,r=abc\n",
    ],
)
def test_what_is_no_client_first_message_is_malformed(message: bytes) -> None:
    with pytest.raises(MalformedToken):
        server(SHA_256).receive(message)


def test_an_authorization_id_may_repeat_the_user_only() -> None:
    assert server(SHA_256).receive(b"n,a=user,n=user,r=abc").startswith(b"r=abc")
    with pytest.raises(AuthenticationFailed, match="authorization id that is different from username"):
        server(SHA_256).receive(b"n,a=admin,n=user,r=abc")


def test_extensions_pass_but_delegation_tokens_do_not() -> None:
    assert server(SHA_256).receive(b"n,,n=user,r=abc,other=1").startswith(b"r=abc")
    with pytest.raises(AuthenticationFailed, match="Delegation tokens"):
        server(SHA_256).receive(b"n,,n=user,r=abc,tokenauth=true")


def test_a_client_that_puts_its_nonce_in_front_twice_gets_in() -> None:
    """librdkafka before 2.8, which kcat of Debian 12 has, does that, and Kafka lets it in."""
    ours = server(SHA_256)
    client = ScramClient(SHA_256, "user", "pencil", CLIENT_NONCE)
    challenge = ours.receive(client.first())
    salted = scram.salted_password(SHA_256, "pencil", SALT, 4096)
    without_proof = f"c=biws,r={CLIENT_NONCE}{NONCES}"
    message = ",".join((client.first().decode()[3:], challenge.decode(), without_proof)).encode()
    key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(key).digest(), message, "sha256")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    assert ours.receive(f"{without_proof},p={proof}".encode()).startswith(b"v=")
    assert ours.complete


@pytest.mark.parametrize(
    "final",
    [
        "c=biws,r=other,p={proof}",
        "c=eSws,r={nonces},p={proof}",
        "c=biws,r={nonces}",
        "c=biws,r={nonces},p=AAAA",
        "c=biws,r={nonces},p=!",
        "c=biws,p={proof}",
    ],
)
def test_a_final_message_that_does_not_belong_to_the_exchange_is_malformed(final: str) -> None:
    ours = server(SHA_256)
    ours.receive(f"n,,n=user,r={CLIENT_NONCE}".encode())
    with pytest.raises(MalformedToken):
        ours.receive(final.format(nonces=NONCES, proof=VECTORS[SHA_256][0]).encode())
    assert not ours.complete


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"r=other,s=AAAA,i=4096",
        f"r={CLIENT_NONCE},s=AAAA,i=4096".encode(),
        f"r={NONCES},s=AAAA,i=4095".encode(),
        f"r={NONCES},s=AAAA,i=1000001".encode(),
        f"r={NONCES},s=AAAA,i=99999999999999999999".encode(),
        f"r={NONCES},s=!,i=4096".encode(),
        f"m=x,r={NONCES},s=AAAA,i=4096".encode(),
    ],
)
def test_a_client_does_not_answer_a_bad_challenge(challenge: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        ScramClient(SHA_256, "user", "pencil", CLIENT_NONCE).receive(challenge)


@pytest.mark.parametrize("answer", [b"v=AAAA", b"e=invalid-proof", b""])
def test_a_client_does_not_believe_a_server_without_the_right_signature(answer: bytes) -> None:
    client = ScramClient(SHA_256, "user", "pencil", CLIENT_NONCE)
    client.receive(server(SHA_256).receive(client.first()))
    with pytest.raises(AuthenticationFailed):
        client.receive(answer)
    assert not client.complete
