"""TLS and every SASL mechanism against a real Apache Kafka: the client works with any cluster."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.peers import SMALL_JVM_OPTIONS, KafkaPeer, free_port
from penstock.certificates import CertificatePaths, create_certificates
from penstock.client import (
    Admin,
    AuthenticationFailed,
    Consumer,
    KafkaError,
    Producer,
    ShareConsumer,
    TlsFailed,
    Token,
    sync,
)
from penstock.client.admin import ResourceType, ScramUpsertion
from penstock.client.authentication import Authenticator
from penstock.client.blocking import BlockingConnection
from penstock.client.cluster import Cluster
from penstock.client.config import ClientConfig, load
from penstock.client.tls import context_of
from penstock.security.scram import ScramMechanism
from penstock.wire import messages as m

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
SESSION_MS = 2_000
PACKAGE = "org.apache.kafka.common.security"


class SecureKafka:
    """One Kafka with a listener per protocol, and a user `alice` whose password is `wonder land`."""

    def __init__(self, peer: KafkaPeer, ports: dict[str, int], certificates: CertificatePaths) -> None:
        self.peer = peer
        self.ports = ports
        self.certificates = certificates

    def settings(self, listener: str, mechanism: str = "", **more: object) -> dict[str, object]:
        protocol = {"MUTUAL": "SSL", "RENEWED": "SASL_PLAINTEXT"}.get(listener, listener)
        made: dict[str, object] = {
            "bootstrap_servers": f"127.0.0.1:{self.ports[listener]}",
            "security_protocol": protocol,
        }
        if protocol.endswith("SSL"):
            made["ssl_cafile"] = str(self.certificates.ca)
        if listener == "MUTUAL":
            made["ssl_certfile"] = str(self.certificates.clients["alice"])
        if mechanism:
            made["sasl_mechanism"] = mechanism
        if mechanism == "OAUTHBEARER":
            made["sasl_oauth_token_provider"] = unsecured_token
        elif mechanism:
            made |= {"sasl_username": "alice", "sasl_password": "wonder land"}
        return made | more


def unsecured_token() -> Token:
    """A token that is not signed, which Kafka takes unless it is told to check signatures."""
    now = time.time()
    parts = ({"alg": "none"}, {"sub": "alice", "iat": now, "exp": now + 3600})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return Token(".".join(encoded) + ".", now + 3600)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    certificates = create_certificates(tmp_path_factory.mktemp("tls"), ["127.0.0.1"], ["alice"])
    ports = {name: free_port() for name in ("SASL_PLAINTEXT", "SASL_SSL", "SSL", "MUTUAL", "RENEWED")}
    protocols = {name: name for name in ports} | {
        "MUTUAL": "SSL",
        "RENEWED": "SASL_PLAINTEXT",
        "CONTROLLER": "PLAINTEXT",
    }
    peer = KafkaPeer(jvm_options=SMALL_JVM_OPTIONS)
    opened = {"PLAINTEXT": peer.port, **ports}
    addresses = ",".join(f"{name}://127.0.0.1:{port}" for name, port in opened.items())
    plain = f'{PACKAGE}.plain.PlainLoginModule required user_alice="wonder land";'
    scram = f"{PACKAGE}.scram.ScramLoginModule required;"
    bearer = f'{PACKAGE}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
    peer.settings = {
        "listeners": f"{addresses},CONTROLLER://127.0.0.1:{peer.controller_port}",
        "advertised.listeners": addresses,
        "listener.security.protocol.map": ",".join(
            f"{k}:{v}" for k, v in {**protocols, "PLAINTEXT": "PLAINTEXT"}.items()
        ),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.renewed.connections.max.reauth.ms": str(SESSION_MS),
        **certificates.broker_configs(),
    }
    for name in ("SASL_PLAINTEXT", "SASL_SSL", "RENEWED"):
        prefix = f"listener.name.{name.lower()}."
        peer.settings[f"{prefix}sasl.enabled.mechanisms"] = ",".join(MECHANISMS)
        peer.settings[f"{prefix}plain.sasl.jaas.config"] = plain
        peer.settings[f"{prefix}oauthbearer.sasl.jaas.config"] = bearer
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            peer.settings[f"{prefix}{mechanism}.sasl.jaas.config"] = scram
    with peer:
        with sync.Admin(bootstrap_servers=peer.bootstrap) as admin:
            for each in ScramMechanism:  # Kafka takes one change of a user per request
                change = [ScramUpsertion("alice", "wonder land", each)]
                assert admin.alter_user_scram_credentials(change) == {"alice": None}
            admin.create_topic("t", 1)
        yield SecureKafka(peer, ports, certificates)


LISTENERS = [
    ("SSL", ""),
    ("MUTUAL", ""),
    *((listener, mechanism) for listener in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in MECHANISMS),
]


@pytest.mark.parametrize(("listener", "mechanism"), LISTENERS)
async def test_every_client_works(kafka: SecureKafka, listener: str, mechanism: str) -> None:
    settings = kafka.settings(listener, mechanism)
    group = f"{listener}-{mechanism}"
    async with Admin(settings) as admin:
        assert "t" in [topic.name for topic in await admin.list_topics()]
        await admin.alter_configs(ResourceType.GROUP, f"share-{group}", {"share.auto.offset.reset": "earliest"})
    async with Producer(settings) as producer:
        await producer.send_batch("t", [group.encode()] * 100)
    async with asyncio.timeout(60):
        async with Consumer(settings, group_id=group, auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["t"])
            seen = 0
            while seen < 100:
                seen += sum(record.value == group.encode() for record in await consumer.poll(500))
        async with ShareConsumer(settings, group_id=f"share-{group}") as worker:
            worker.subscribe(["t"])
            while not await worker.poll(500):
                pass


@pytest.mark.parametrize(("listener", "mechanism"), LISTENERS)
def test_the_blocking_connection_works(kafka: SecureKafka, listener: str, mechanism: str) -> None:
    config = load(ClientConfig, None, kafka.settings(listener, mechanism))
    connection = BlockingConnection.open(
        "127.0.0.1", kafka.ports[listener], ssl_context=context_of(config), authenticator=Authenticator.of(config)
    )
    try:
        answer = connection.request(m.MetadataRequest(topics=None), m.MetadataResponse, at_most=12)
        assert "t" in [topic.name for topic in answer.topics]
    finally:
        connection.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_a_session_is_renewed_while_requests_are_in_flight(kafka: SecureKafka, mechanism: str) -> None:
    """Kafka closes a connection that is used after its session has ended, so one that lasts was renewed."""
    config = load(ClientConfig, None, kafka.settings("RENEWED", mechanism))
    async with Cluster(config) as cluster:
        first = await cluster.any_connection()
        until = time.monotonic() + 2.5 * SESSION_MS / 1000
        while time.monotonic() < until:
            question = m.MetadataRequest(topics=None)
            await asyncio.gather(*(first.request(question, m.MetadataResponse) for _ in range(20)))
        assert not first.closed
        assert await cluster.any_connection() is first


def test_the_blocking_connection_is_renewed(kafka: SecureKafka) -> None:
    config = load(ClientConfig, None, kafka.settings("RENEWED", "SCRAM-SHA-256"))
    connection = BlockingConnection.open("127.0.0.1", kafka.ports["RENEWED"], authenticator=Authenticator.of(config))
    until = time.monotonic() + 2.5 * SESSION_MS / 1000
    try:
        while time.monotonic() < until:
            connection.request(m.MetadataRequest(topics=None), m.MetadataResponse, at_most=12)
    finally:
        connection.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_wrong_password_fails_at_once(kafka: SecureKafka, mechanism: str) -> None:
    settings = kafka.settings("SASL_SSL", mechanism, sasl_password="guessed")
    with pytest.raises(
        AuthenticationFailed, match=f"refuses user 'alice' .{mechanism}.: Authentication failed"
    ) as error:
        async with asyncio.timeout(10), Admin(settings):
            pass
    assert "guessed" not in str(error.value)


async def test_a_wrong_password_fails_a_producer_that_blocks(kafka: SecureKafka) -> None:
    settings = kafka.settings("SASL_PLAINTEXT", "PLAIN", sasl_password="guessed")
    with pytest.raises(AuthenticationFailed):
        async with asyncio.timeout(10), Producer(settings) as producer:
            await producer.send("t", b"v")


async def test_an_expired_token_is_refused_by_the_broker(kafka: SecureKafka) -> None:
    def expired() -> Token:
        parts = ({"alg": "none"}, {"sub": "alice", "iat": 1, "exp": 2})
        encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
        return Token(".".join(encoded) + ".", time.time() + 60)

    settings = kafka.settings("SASL_PLAINTEXT", "OAUTHBEARER", sasl_oauth_token_provider=expired)
    with pytest.raises(AuthenticationFailed, match=r"refuses the token \(OAUTHBEARER\)"):
        async with asyncio.timeout(10), Admin(settings):
            pass


async def test_a_client_without_sasl_learns_what_the_listener_offers(kafka: SecureKafka) -> None:
    settings = {"bootstrap_servers": f"127.0.0.1:{kafka.ports['SASL_PLAINTEXT']}"}
    with pytest.raises(AuthenticationFailed, match=r"closes connections that do not authenticate: it offers .*PLAIN"):
        async with asyncio.timeout(10), Admin(settings):
            pass


async def test_sasl_on_a_listener_without_it_is_told(kafka: SecureKafka) -> None:
    settings = kafka.settings("SASL_PLAINTEXT", "PLAIN", bootstrap_servers=kafka.peer.bootstrap)
    with pytest.raises(AuthenticationFailed, match="authenticates nobody with SASL on this listener"):
        async with asyncio.timeout(10), Admin(settings):
            pass


async def test_an_authority_that_is_not_trusted_fails_at_once(kafka: SecureKafka, tmp_path: Path) -> None:
    other = create_certificates(tmp_path, ["127.0.0.1"])
    with pytest.raises(TlsFailed, match="is not trusted"):
        async with asyncio.timeout(10), Admin(kafka.settings("SASL_SSL", "PLAIN", ssl_cafile=str(other.ca))):
            pass


async def test_a_missing_client_certificate_is_told(kafka: SecureKafka) -> None:
    with pytest.raises(KafkaError, match="wants a certificate of this client"):
        async with asyncio.timeout(10), Admin(kafka.settings("MUTUAL", ssl_certfile="")):
            pass
