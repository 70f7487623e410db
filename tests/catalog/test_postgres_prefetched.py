"""A thread reads ahead what others have changed, and the owner applies it without asking the server."""

from __future__ import annotations

from penstock.catalog.postgres_prefetched import PrefetchedCatalog, Prefetching
from penstock.catalog.postgres_session import Session
from penstock.catalog.shared import HostAndPort, Kind, Placement
from tests.catalog.postgres_catalogs import never_lost, new_schema
from tests.postgres import PostgresServer

ID = bytes(range(16))


def open_both(postgres: PostgresServer) -> tuple[PrefetchedCatalog, Prefetching]:
    schema = new_schema()
    catalog = PrefetchedCatalog.open_shared(postgres.url(), schema, "here", store="memory://", on_lost=never_lost)
    return catalog, Prefetching(Session(postgres.url(), schema, "here"), never_lost, 8.0)


def test_what_was_read_ahead_is_what_reads_are_answered_from(postgres: PostgresServer) -> None:
    catalog, reader = open_both(postgres)
    catalog.create_topic("orders", ID, 1, {}, [Placement(1, (1,))])
    found = reader.prefetch(0, catalog.local_changes)
    assert found is not None
    assert found.kinds == {Kind.TOPICS, Kind.PARTITIONS}
    catalog.delete_topic(ID)
    assert catalog.topics() == []
    with catalog.holding(found):
        assert [row.name for row in catalog.topics()] == ["orders"]
        assert [row.leader for row in catalog.partitions()] == [1]
        assert catalog.changes_since(0) == (found.version, found.kinds)
        assert catalog.brokers() == [], "what was not read ahead is read now"
    assert found.local_changes != catalog.local_changes, "it is out of date, and that can be told"
    catalog.close()
    reader.close()


def test_nothing_is_read_where_nothing_has_changed_unless_it_is_wanted(postgres: PostgresServer) -> None:
    catalog, reader = open_both(postgres)
    epoch = reader.register_broker(1, "a", None, {})
    reader.announce_broker(1, epoch, {"PLAINTEXT": HostAndPort("h", 1)})
    version = catalog.version()
    assert reader.prefetch(version, 0) is None
    found = reader.prefetch(version, 0, frozenset({Kind.BROKERS}))
    assert found is not None
    assert list(found.rows) == [("brokers",)]
    everything = reader.prefetch(0, 0, frozenset(Kind))
    assert everything is not None
    with catalog.holding(everything):
        catalog._session.close()
        assert [row.node_id for row in catalog.brokers()] == [1]
        assert (catalog.features(), catalog.features_epoch()) == ({}, 1)
        assert [catalog.acls(), catalog.credentials(), catalog.quotas()] == [[], [], {}]
    catalog.close()
    reader.close()
