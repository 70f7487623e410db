"""The same exchanges through Kafka's own Java classes."""

from __future__ import annotations

import random
import subprocess
from base64 import b64encode
from pathlib import Path
from typing import NamedTuple

import pytest

from penstock.security import scram
from penstock.security.scram import Credential, ScramClient, ScramMechanism, ScramServer


class Case(NamedTuple):
    mechanism: ScramMechanism
    user: str
    password: str
    salt: bytes
    iterations: int
    client_nonce: str
    server_nonce: str

    def line(self) -> str:
        user, password, salt = (
            b64encode(each).decode() for each in (self.user.encode(), self.password.encode(), self.salt)
        )
        return " ".join(
            (
                self.mechanism.sasl_name,
                user,
                password or "-",
                salt,
                str(self.iterations),
                self.client_nonce,
                self.server_nonce,
            )
        )


def _random_case(chance: random.Random) -> Case:
    def text(alphabet: str, most: int) -> str:
        return "".join(chance.choices(alphabet, k=chance.randint(1, most)))

    ascii_letters = "abcXYZ059,=. -_@"
    # \u00aa and \u2163 are what SASLprep would change.
    return Case(
        chance.choice(list(ScramMechanism)),
        text(ascii_letters, 20),
        text(ascii_letters + "äß\u00a0\u00ad\u00aa\u2163😀", 30),
        chance.randbytes(chance.randint(8, 40)),
        chance.choice([4096, 5000, 16384]),
        text("abcdef0123456789+/", 30),
        text("abcdef0123456789+/", 30),
    )


def _ours(case: Case) -> str:
    credential = scram.credential_of(case.mechanism, case.password, case.salt, case.iterations)

    def look_up(user: str) -> Credential:
        assert user == case.user
        return credential

    client = ScramClient(case.mechanism, case.user, case.password, case.client_nonce)
    server = ScramServer(case.mechanism, case.server_nonce, look_up)
    challenge = server.receive(client.first())
    final = client.receive(challenge)
    assert final is not None
    answer = server.receive(final)
    encoded = [b64encode(each).decode() for each in (*credential[2:], client.first(), challenge)]
    return " ".join((*encoded, final.decode().rpartition(",p=")[2], answer.decode().removeprefix("v=")))


@pytest.mark.java
def test_credentials_proofs_and_signatures_are_those_of_kafka(kafka_jars: Path) -> None:
    chance = random.Random(5802)
    salt = bytes.fromhex("5b6d99689d12358eeca04b141236fa81")
    nonces = ("rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    cases = [Case(mechanism, "user", "pencil", salt, 4096, *nonces) for mechanism in ScramMechanism]
    cases += [_random_case(chance) for _ in range(200)]
    run = subprocess.run(
        ["java", "-cp", f"{kafka_jars}/*", str(Path(__file__).with_name("Scram.java"))],
        input="\n".join(case.line() for case in cases),
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.splitlines() == [_ours(case) for case in cases]
