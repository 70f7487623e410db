"""Every client against a Penstock broker that wants users: PLAIN and SCRAM, sessions that end, users who go."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from penstock.client import Admin, AuthenticationFailed, Consumer, KafkaError, Producer, ShareConsumer, sync
from penstock.client.admin import ScramDeletion, ScramUpsertion
from penstock.client.cluster import Cluster
from penstock.client.config import ClientConfig, load
from penstock.client.connection import Connection
from penstock.security.scram import ScramMechanism
from penstock.testing.broker import Broker
from penstock.wire import messages as m

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_APART_S = 1.1  # brokers refuse to authenticate again sooner
PASSWORDS = {"alice": "wonder land", "admin": "of all"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(sasl=MECHANISMS, users=PASSWORDS) as it:
        it.create_topic("t", 1)
        yield it


def settings(broker: Broker, mechanism: str = "SCRAM-SHA-512", **more: object) -> dict[str, object]:
    return {**broker.client_settings("alice"), "sasl_mechanism": mechanism, **more}


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_every_client_works(broker: Broker, mechanism: str) -> None:
    login = settings(broker, mechanism)
    async with Admin(login) as admin:
        assert "t" in [topic.name for topic in await admin.list_topics()]
    async with Producer(login) as producer:
        await producer.send_batch("t", [b"v"] * 100)
    async with asyncio.timeout(30):
        async with Consumer(login, group_id=mechanism, auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["t"])
            seen = 0
            while seen < 100:
                seen += len(await consumer.poll(500))
        async with ShareConsumer(login, group_id=f"share-{mechanism}") as worker:
            worker.subscribe(["t"])
            assert await worker.poll(200) == []


def test_the_synchronous_twins_log_in_too(broker: Broker) -> None:
    with sync.Admin(settings(broker)) as admin:
        assert "t" in [topic.name for topic in admin.list_topics()]
    with sync.Producer(settings(broker)) as producer:
        assert producer.send("t", b"v").result().topic == "t"


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("wrong", [{"sasl_password": "guessed"}, {"sasl_username": "nobody"}])
async def test_a_wrong_login_fails_at_once(broker: Broker, mechanism: str, wrong: dict[str, str]) -> None:
    with pytest.raises(AuthenticationFailed, match="refuses user") as caught:
        async with asyncio.timeout(10), Admin(settings(broker, mechanism, **wrong)):
            pass
    assert "guessed" not in str(caught.value)


async def test_a_mechanism_that_the_broker_has_not_is_refused_with_what_it_offers(broker: Broker) -> None:
    login = {**broker.client_settings("alice"), "sasl_mechanism": "OAUTHBEARER"}
    del login["sasl_username"], login["sasl_password"]
    with pytest.raises(AuthenticationFailed, match=r"does not take .*'OAUTHBEARER'; it offers .*SCRAM-SHA-512"):
        async with asyncio.timeout(10), Admin(login, sasl_oauth_token_provider=lambda: ("abc", 4e9)):
            pass


async def test_a_client_without_a_user_learns_what_the_listener_offers(broker: Broker) -> None:
    with pytest.raises(AuthenticationFailed, match="closes connections that do not authenticate: it offers"):
        async with asyncio.timeout(10), Admin(bootstrap_servers=broker.bootstrap_servers):
            pass


async def test_a_user_on_a_listener_without_users_is_told(penstock_broker: Broker, broker: Broker) -> None:
    login = settings(broker, bootstrap_servers=penstock_broker.bootstrap_servers)
    with pytest.raises(AuthenticationFailed, match="authenticates nobody with SASL on this listener"):
        async with asyncio.timeout(10), Admin(login):
            pass


async def test_a_producer_of_a_user_who_is_removed_fails_and_does_not_try_for_ever(broker: Broker) -> None:
    async with Admin(broker.client_settings("admin")) as admin:
        await admin.alter_user_scram_credentials([ScramUpsertion("passing", "through")])
        login = settings(broker, sasl_username="passing", sasl_password="through")
        async with Producer(login) as producer:
            await producer.send("t", b"before")
            await admin.alter_user_scram_credentials(deletions=[ScramDeletion("passing", ScramMechanism.SCRAM_SHA_512)])
            with pytest.raises(AuthenticationFailed, match="refuses user 'passing'"):
                await _send_until_it_fails(producer)


async def _send_until_it_fails(producer: Producer) -> None:
    async with asyncio.timeout(20):
        while True:
            await (await producer.send("t", b"after"))


class Renewals:
    """Counts how often connections authenticate."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        lead = Connection._authenticate

        async def counted(connection: Connection, *arguments: object) -> None:
            await lead(connection, *arguments)  # type: ignore[arg-type]
            self.count += 1

        monkeypatch.setattr(Connection, "_authenticate", counted)


async def test_a_session_is_renewed_while_requests_are_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    renewals = Renewals(monkeypatch)
    with Broker({"connections.max.reauth.ms": 1500}, sasl=["PLAIN", "SCRAM-SHA-256"], users=PASSWORDS) as broker:
        async with Cluster(load(ClientConfig, None, settings(broker, "SCRAM-SHA-256"))) as cluster:
            connection = await cluster.any_connection()
            async with asyncio.timeout(30):
                while renewals.count < 3:
                    question = m.MetadataRequest(topics=None)
                    await asyncio.gather(*(connection.request(question, m.MetadataResponse) for _ in range(20)))
            assert not connection.closed


async def test_a_caller_who_gives_up_does_not_break_the_renewal_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    renewals = Renewals(monkeypatch)
    with Broker({"connections.max.reauth.ms": 60_000}, sasl="SCRAM-SHA-256", users=PASSWORDS) as broker:
        async with Cluster(load(ClientConfig, None, settings(broker, "SCRAM-SHA-256"))) as cluster:
            connection = await cluster.any_connection()
            before = renewals.count
            await asyncio.sleep(_APART_S)
            connection._renew_at = 0.0
            question = m.MetadataRequest(topics=None)
            impatient = asyncio.create_task(connection.request(question, m.MetadataResponse))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            impatient.cancel()
            await connection.request(question, m.MetadataResponse)
            assert renewals.count == before + 1
            assert not connection.closed


async def test_a_session_that_cannot_be_renewed_ends_with_the_reason() -> None:
    with Broker({"connections.max.reauth.ms": 60_000}, sasl="SCRAM-SHA-512", users=PASSWORDS) as broker:
        async with Cluster(load(ClientConfig, None, settings(broker))) as cluster:
            connection = await cluster.any_connection()
            assert cluster._authenticator is not None
            cluster._authenticator._password = "changed"
            await asyncio.sleep(_APART_S)
            connection._renew_at = 0.0
            with pytest.raises(AuthenticationFailed, match="refuses user 'alice'"):
                await connection.request(m.MetadataRequest(topics=None), m.MetadataResponse)
            assert connection.closed
            with pytest.raises(KafkaError):
                await cluster.request(m.MetadataRequest(topics=None), m.MetadataResponse)
