"""Real clients log in with every mechanism that they have; wrong passwords and bad tokens get an error, and quickly."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from cryptography.hazmat.primitives.asymmetric import ec
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaTimeoutError
from kafka.net.sasl.oauth import AbstractTokenProvider

from penstock.testing import Broker
from tests.broker.sasl_client import SaslClient, sasl_broker

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
KEY = ec.generate_private_key(ec.SECP256R1())
OTHER_KEY = ec.generate_private_key(ec.SECP256R1())
SECONDS = 20.0


def token(key: ec.EllipticCurvePrivateKey = KEY, expires_in: int = 300) -> str:
    now = int(time.time())
    return jwt.encode({"sub": "carol", "iat": now - 60, "exp": now + expires_in}, key, "ES256", {"kid": "k"})


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp("sasl")
    keys = folder / "keys.json"
    public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key()))
    keys.write_text(json.dumps({"keys": [{**public, "kid": "k"}]}))
    configs = {
        "sasl.enabled.mechanisms": ",".join([*MECHANISMS, "OAUTHBEARER"]),
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
    }
    with sasl_broker(folder / "data", configs) as running:
        yield running


class Confluent:
    def __init__(self, broker: Broker, mechanism: str, password: str, user: str = "alice") -> None:
        self.errors: list[KafkaError] = []
        self.settings: dict[str, Any] = {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "error_cb": self.errors.append,
            "log_level": 0,
        }
        if mechanism == "OAUTHBEARER":
            self.settings["oauth_cb"] = lambda _: (password, time.time() + 300)
        else:
            self.settings |= {"sasl.username": user, "sasl.password": password}

    def round_trip(self, topic: str) -> bytes | None:
        producer = Producer(self.settings)
        producer.produce(topic, b"hello")
        assert producer.flush(SECONDS) == 0
        consumer = Consumer({**self.settings, "group.id": topic, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        message = consumer.poll(SECONDS)
        consumer.close()
        assert message is not None
        return message.value()

    def error(self) -> int:
        """The code of the first error that is about authentication."""
        producer = Producer(self.settings)
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            producer.poll(0.05)
            for error in self.errors:
                if error.code() == KafkaError._AUTHENTICATION:
                    return int(error.code())
        raise AssertionError(f"no error about authentication, but {self.errors}")


class _Provider(AbstractTokenProvider):  # type: ignore[misc]  # a class without types
    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token


class _AioProvider(AioTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def kafka_python(broker: Broker, mechanism: str, password: str, user: str = "alice") -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        return {**settings, "sasl_oauth_token_provider": _Provider(password)}
    return {**settings, "sasl_plain_username": user, "sasl_plain_password": password}


def aio(broker: Broker, mechanism: str, password: str) -> dict[str, Any]:
    settings = kafka_python(broker, mechanism, password)
    if mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = _AioProvider(password)
    return settings


CASES = [*((mechanism, lambda: "secret") for mechanism in MECHANISMS), ("OAUTHBEARER", token)]
WRONG = [
    *((mechanism, lambda: "wrong") for mechanism in MECHANISMS),
    ("OAUTHBEARER", lambda: token(OTHER_KEY)),
    ("OAUTHBEARER", lambda: token(expires_in=-40)),
]
WRONG_NAMES = [*MECHANISMS, "signature", "expired"]


@pytest.mark.parametrize(("mechanism", "password"), CASES, ids=[mechanism for mechanism, _ in CASES])
class TestGood:
    def test_confluent(self, broker: Broker, mechanism: str, password: Callable[[], str]) -> None:
        assert Confluent(broker, mechanism, password()).round_trip(f"confluent-{mechanism}") == b"hello"

    def test_kafka_python(self, broker: Broker, mechanism: str, password: Callable[[], str]) -> None:
        settings, topic = kafka_python(broker, mechanism, password()), f"python-{mechanism}"
        producer = KafkaProducer(**settings)
        producer.send(topic, b"hello").get(SECONDS)
        producer.close()
        consumer = KafkaConsumer(topic, **settings, group_id=topic, auto_offset_reset="earliest")
        assert next(iter(consumer)).value == b"hello"
        consumer.close()

    async def test_aiokafka(self, broker: Broker, mechanism: str, password: Callable[[], str]) -> None:
        settings, topic = aio(broker, mechanism, password()), f"aio-{mechanism}"
        async with AIOKafkaProducer(**settings) as producer:
            await producer.send_and_wait(topic, b"hello")
        consumer = AIOKafkaConsumer(topic, **settings, group_id=topic, auto_offset_reset="earliest")
        async with consumer:
            assert (await consumer.getone()).value == b"hello"


@pytest.mark.parametrize(("mechanism", "password"), WRONG, ids=WRONG_NAMES)
class TestWrong:
    def test_confluent(self, broker: Broker, mechanism: str, password: Callable[[], str]) -> None:
        assert Confluent(broker, mechanism, password()).error() == KafkaError._AUTHENTICATION

    def test_kafka_python(
        self, broker: Broker, mechanism: str, password: Callable[[], str], caplog: pytest.LogCaptureFixture
    ) -> None:
        with pytest.raises(KafkaTimeoutError):
            KafkaProducer(**kafka_python(broker, mechanism, password()), bootstrap_timeout_ms=2000)
        assert "SaslAuthenticationFailedError" in caplog.text

    async def test_aiokafka(
        self, broker: Broker, mechanism: str, password: Callable[[], str], caplog: pytest.LogCaptureFixture
    ) -> None:
        producer = AIOKafkaProducer(**aio(broker, mechanism, password()))
        with pytest.raises(KafkaConnectionError):
            await producer.start()
        await producer.stop()
        if mechanism != "OAUTHBEARER":  # aiokafka takes the error about a token for the end of the exchange
            assert "SaslAuthenticationFailed" in caplog.text


def test_a_session_lasts_no_longer_than_its_token(broker: Broker) -> None:
    with SaslClient(broker.port) as client:
        assert client.handshake("OAUTHBEARER").error_code == 0
        answer = client.token(b"n,,\x01auth=Bearer " + token(expires_in=60).encode() + b"\x01\x01")
        assert answer.error_code == 0
        assert 50_000 < answer.session_lifetime_ms <= 60_000


def test_a_user_who_is_removed_while_connected_gets_an_error_about_authentication(tmp_path: Path) -> None:
    with sasl_broker(tmp_path) as broker, SaslClient(broker.port) as admin:
        admin.log_in("PLAIN", "bob", "hunter2")
        client = Confluent(broker, "SCRAM-SHA-512", "secret")
        producer = Producer(client.settings)
        producer.produce("t", b"before")
        assert producer.flush(SECONDS) == 0
        admin.remove_user("alice")
        deadline = time.monotonic() + SECONDS
        while not any(error.code() == KafkaError._AUTHENTICATION for error in client.errors):
            assert time.monotonic() < deadline
            producer.poll(0.05)
        with pytest.raises(KafkaException):
            Producer(client.settings).list_topics(timeout=1)
