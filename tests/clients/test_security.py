"""Each client gets in each way, does its work there, and is kept out with the right error when it should be."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.clients.secured import WAIT_S, WAYS, Secured, Way, secured_broker
from tests.clients.secured_adapters import ALL, AUTHENTICATION, CLOSED, TLS, SecuredClient

VALUES = [b"first", b"second", b"third"]
WITH_PASSWORD = [way for way in WAYS if way.startswith(("plain", "scram"))]
WITH_TOKEN = [way for way in WAYS if way.startswith("oauthbearer")]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_broker(tmp_path_factory.mktemp("secured")) as running:
        yield running


@pytest.fixture(params=ALL, ids=lambda make: str(make.name))
def client(request: pytest.FixtureRequest) -> SecuredClient:
    make: Callable[[], SecuredClient] = request.param
    return make()


def refused(client: SecuredClient, way: Way) -> bool:
    """Whether the client is kept out and says that it was not authenticated.

    Two clients may see only that the connection ends: kafka-python 3.0 throws an answer away when the
    connection is closed right behind it, and aiokafka 0.14 takes the broker's word about a bad token for success.
    """
    is_blind = client.name == "kafka-python" or (client.name == "aiokafka" and bool(way.token))
    return client.kept_out(way) in ((AUTHENTICATION, CLOSED) if is_blind else (AUTHENTICATION,))


def own_name(way: Way) -> str:
    """A topic or group that this way's principal may use."""
    return f"{way.prefix}{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize("name", WAYS)
def test_a_client_that_is_let_in_works(secured: Secured, client: SecuredClient, name: str) -> None:
    way = secured.way(name)
    topic = own_name(way)
    client.create_topic(way, topic)
    client.produce(way, topic, VALUES)
    assert client.consume(way, topic, own_name(way), len(VALUES)) == VALUES
    if client.shares:
        group = own_name(way)
        secured.share_from_the_start(group)
        assert client.share_consume(way, topic, group, len(VALUES)) == VALUES


@pytest.mark.parametrize("name", WITH_PASSWORD)
def test_a_wrong_password_fails_the_authentication(secured: Secured, client: SecuredClient, name: str) -> None:
    assert refused(client, secured.way(name).but(password="wrong"))


@pytest.mark.parametrize("name", WITH_PASSWORD)
def test_an_unknown_user_fails_the_authentication(secured: Secured, client: SecuredClient, name: str) -> None:
    assert refused(client, secured.way(name).but(user="nobody"))


@pytest.mark.parametrize("name", WITH_TOKEN)
def test_an_expired_token_fails_the_authentication(secured: Secured, client: SecuredClient, name: str) -> None:
    way = secured.way(name)
    assert refused(client, way.but(token=secured.issuer.token(way.user, -3600)))


def test_an_unknown_authority_fails_the_handshake(secured: Secured, client: SecuredClient) -> None:
    assert client.kept_out(secured.way("tls").but(authority=secured.stranger.certificate)) == TLS


def test_a_broker_with_the_name_of_another_host_fails_the_handshake(secured: Secured, client: SecuredClient) -> None:
    assert client.kept_out(secured.strange()) == TLS


def test_a_client_without_a_certificate_is_refused_where_one_is_required(
    secured: Secured, client: SecuredClient
) -> None:
    # In TLS 1.3 the client has finished its handshake when the broker refuses: some see only that it closes.
    assert client.kept_out(secured.way("mutual-tls").but(identity=None)) in (TLS, CLOSED)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_who_is_removed_while_connected_is_thrown_out(
    secured: Secured, client: SecuredClient, mechanism: str
) -> None:
    user = f"removed-{uuid.uuid4().hex[:8]}"
    secured.add_user(user, "secret", mechanism)
    name = mechanism.lower()
    way = secured.way(name).but(user=user, password="secret")
    topic = own_name(way)
    secured.allow(way.principal, way.prefix)
    client.create_topic(way, topic)
    with client.connected(way, topic) as produce:
        assert produce() == ""
        secured.remove_user(user, mechanism)
        blamed, until = "", time.monotonic() + WAIT_S
        while not blamed and time.monotonic() < until:
            blamed = produce()
    assert blamed in ((AUTHENTICATION, CLOSED) if client.name == "kafka-python" else (AUTHENTICATION,))
