"""Leases in PostgreSQL: renewed by their brokers, ended when they are over or their broker is plainly gone."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import psycopg
import pytest

from penstock.catalog.contract import CatalogError
from penstock.catalog.postgres_membership import PostgresMembership
from penstock.catalog.postgres_shared import SharedPostgresCatalog
from penstock.catalog.shared import BrokerRow, HostAndPort, Kind, Move, PartitionRow, Placement
from penstock.cluster.placement import nodes_of, take_over
from tests.catalog.postgres_catalogs import new_schema, open_shared
from tests.postgres import PostgresServer

ID = bytes(range(16))
LEASE = 0.5
AT = {"PLAINTEXT": HostAndPort("127.0.0.1", 9092)}


class Cluster:
    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.schema = new_schema()
        self.catalog: SharedPostgresCatalog = open_shared(server, self.schema, lease_seconds=LEASE)
        self.opened: list[PostgresMembership] = []

    def membership(self) -> PostgresMembership:
        self.opened.append(PostgresMembership(self.server.url(), self.schema, "the server", LEASE))
        return self.opened[-1]

    def close(self) -> None:
        for membership in self.opened:
            membership.close()
        self.catalog.close()


@pytest.fixture
def cluster(postgres: PostgresServer) -> Iterator[Cluster]:
    made = Cluster(postgres)
    yield made
    made.close()


def decide(brokers: Sequence[BrokerRow], rows: Sequence[PartitionRow], draining: frozenset[int]) -> Sequence[Move]:
    return take_over(rows, nodes_of(brokers, draining))


def test_a_lease_that_is_renewed_is_not_ended(cluster: Cluster) -> None:
    one, two = cluster.membership(), cluster.membership()
    epoch = cluster.catalog.register_broker(1, "a", None, AT)
    until = time.monotonic() + 4 * LEASE
    while time.monotonic() < until:
        assert one.renew(1, epoch) is not None
        assert two.settle([], decide) == []
    assert [row.is_live for row in cluster.catalog.brokers()] == [True]


def test_a_lease_that_is_over_is_ended_and_its_partitions_are_led_by_others(cluster: Cluster) -> None:
    gone = cluster.catalog.register_broker(1, "a", None, AT)
    stays = cluster.catalog.register_broker(2, "b", None, AT)
    cluster.catalog.create_topic("orders", ID, 2, {}, [Placement(1, (1, 2)), Placement(2, (2, 1))])
    membership = cluster.membership()
    before = cluster.catalog.version()
    deadline = time.monotonic() + 20
    ended: list[int] = []
    while not ended and time.monotonic() < deadline:
        assert membership.renew(2, stays) is not None
        ended = membership.settle([], decide)
    assert ended == [1]
    assert cluster.catalog.partitions() == [PartitionRow(ID, 0, 2, 1, (1, 2)), PartitionRow(ID, 1, 2, 0, (2, 1))]
    assert cluster.catalog.changes_since(before).kinds == {Kind.BROKERS, Kind.PARTITIONS}
    assert membership.renew(1, gone) is None


def test_a_broker_that_refuses_connections_and_has_no_session_is_ended_at_once(cluster: Cluster) -> None:
    catalog = open_shared(cluster.server, cluster.schema, lease_seconds=600)
    epoch = catalog.register_broker(1, "a", None, AT)
    dying = PostgresMembership(cluster.server.url(), cluster.schema, "the server", 600)
    assert dying.renew(1, epoch) is not None
    other = PostgresMembership(cluster.server.url(), cluster.schema, "the server", 600)
    assert other.settle([(1, epoch)], decide) == [], "its session is there"
    dying.close()
    deadline = time.monotonic() + 20
    while other.standings()[0].has_session and time.monotonic() < deadline:
        time.sleep(0.02)
    assert other.settle([], decide) == [], "nobody has seen it refuse connections"
    assert other.settle([(1, epoch - 1)], decide) == [], "it has registered again since"
    assert other.settle([(1, epoch)], decide) == [1]
    other.close()
    catalog.close()


def test_a_broker_without_its_first_renewal_is_not_ended_early(cluster: Cluster) -> None:
    catalog = open_shared(cluster.server, cluster.schema, lease_seconds=600)
    epoch = catalog.register_broker(1, "a", None, AT)
    assert cluster.membership().settle([(1, epoch)], decide) == []
    catalog.close()


def test_nobody_is_ended_for_one_lease_after_postgresql_was_started() -> None:
    with PostgresServer() as server:
        schema = new_schema()
        catalog = open_shared(server, schema, lease_seconds=600)
        catalog.register_broker(1, "a", None, AT)
        membership = PostgresMembership(server.url(), schema, "the server", 600)
        with psycopg.connect(server.url(), autocommit=True) as connection:
            of = psycopg.sql.Identifier(schema)
            connection.execute(
                psycopg.sql.SQL("UPDATE {}.broker SET lease_until = now() - '1 day'::interval").format(of)
            )
        assert membership.standings()[0].lease_seconds < -3600
        assert membership.settle([], decide) == []
        membership.close()
        catalog.close()


def test_a_broker_hears_with_its_renewal_that_it_is_to_drain_and_that_something_changed(cluster: Cluster) -> None:
    membership = cluster.membership()
    epoch = cluster.catalog.register_broker(1, "a", None, AT)
    first = membership.renew(1, epoch)
    assert first is not None
    assert not first.is_draining
    cluster.membership().drain(1)
    second = membership.renew(1, epoch)
    assert second == (True, True)
    with pytest.raises(CatalogError, match="no broker with node id 9 is running"):
        membership.drain(9)


def test_a_server_that_is_away_is_reported_and_the_next_call_works_when_it_is_back() -> None:
    with PostgresServer() as server:
        schema = new_schema()
        catalog = open_shared(server, schema, lease_seconds=600)
        epoch = catalog.register_broker(1, "a", None, AT)
        membership = PostgresMembership(server.url(), schema, "the server", 600)
        assert membership.renew(1, epoch) is not None
        server.stop()
        with pytest.raises(CatalogError):
            membership.renew(1, epoch)
        server.start()
        deadline, renewed = time.monotonic() + 30, None
        while renewed is None and time.monotonic() < deadline:
            try:
                renewed = membership.renew(1, epoch)
            except CatalogError:
                time.sleep(0.05)
        assert renewed is not None
        membership.close()
        catalog.close()


def test_the_last_broker_is_drained_only_by_who_means_it(cluster: Cluster) -> None:
    membership = cluster.membership()
    catalog = open_shared(cluster.server, cluster.schema, lease_seconds=600)
    epoch = catalog.register_broker(1, "a", None, AT)
    with pytest.raises(CatalogError, match="broker 1 cannot hand over"):
        membership.drain(1, even_the_last=False)
    renewal = membership.renew(1, epoch)
    assert renewal is not None
    assert not renewal.is_draining
    starting = catalog.register_broker(2, "b", None, {})
    with pytest.raises(CatalogError, match="cannot hand over"):
        membership.drain(1, even_the_last=False)
    catalog.announce_broker(2, starting, AT)
    membership.drain(1, even_the_last=False)
    with pytest.raises(CatalogError, match="cannot hand over"):
        membership.drain(2, even_the_last=False)
    membership.drain(2)
    catalog.close()
