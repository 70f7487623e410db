"""Several brokers change one catalog in PostgreSQL: at once, through lost connections, and with the store they name."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator

import psycopg
import pytest

from penstock.catalog.contract import CatalogError, CatalogLost, TopicExists, replaced_by
from penstock.catalog.leases import NodeIdInUse
from penstock.catalog.postgres_shared import SharedPostgresCatalog, channel
from penstock.catalog.shared import Direction, HostAndPort, Kind, Move, PartitionRow, Placement
from tests.catalog.postgres_catalogs import never_lost, new_schema, open_postgres, open_shared
from tests.catalog.postgres_proxy import PostgresProxy
from tests.postgres import PostgresServer

ID = bytes(range(16))
HERE = {"PLAINTEXT": HostAndPort("127.0.0.1", 9092)}


@pytest.fixture
def schema() -> str:
    return new_schema()


@pytest.fixture
def catalog(postgres: PostgresServer, schema: str) -> Iterator[SharedPostgresCatalog]:
    opened = open_shared(postgres, schema)
    yield opened
    opened.close()


def test_changes_of_several_brokers_at_once_are_all_made_and_none_twice(postgres: PostgresServer, schema: str) -> None:
    blocks: list[int] = []
    created: list[str] = []

    def work(number: int) -> None:
        catalog = open_shared(postgres, schema)
        for round_ in range(8):
            blocks.append(catalog.allocate_producer_id_block().start)
            try:
                catalog.create_topic(f"topic-{round_}", uuid.uuid4().bytes, 1, {}, [Placement(number, (number,))])
                created.append(f"topic-{round_}")
            except TopicExists:
                pass
        catalog.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(blocks) == [n * 1000 for n in range(32)]
    assert sorted(created) == [f"topic-{n}" for n in range(8)]
    catalog = open_shared(postgres, schema)
    assert catalog.version() == 8
    catalog.close()


def test_a_change_whose_commit_got_no_answer_is_made_once(postgres: PostgresServer, schema: str) -> None:
    with PostgresProxy(postgres.port) as proxy:
        catalog = open_shared(postgres, schema, port=proxy.port)
        proxy.cut_after = b"COMMIT"
        assert catalog.allocate_producer_id_block().start == 0
        proxy.cut_after = b"COMMIT"
        catalog.create_topic("orders", ID, 1, {}, [Placement(1, (1,))])
        assert catalog.allocate_producer_id_block().start == 1000
        assert [row.name for row in catalog.topics()] == ["orders"]
        assert proxy.faults == 2
        catalog.close()


def test_a_change_of_another_broker_between_two_attempts_does_not_hide_the_first(
    postgres: PostgresServer, schema: str, catalog: SharedPostgresCatalog
) -> None:
    other = open_shared(postgres, schema)
    attempt = catalog._attempt

    def interrupted(*arguments: object) -> object:
        attempt(*arguments)  # type: ignore[arg-type]
        catalog._attempt = attempt  # type: ignore[method-assign]
        other.allocate_producer_id_block()
        catalog._unsettled = "this one"
        raise CatalogError("the connection was lost during COMMIT")

    catalog._attempt = interrupted  # type: ignore[method-assign, assignment]
    catalog.create_topic("orders", ID, 1, {})
    assert catalog.allocate_producer_id_block().start == 1000
    other.close()


def test_those_who_listen_are_notified(postgres: PostgresServer, schema: str, catalog: SharedPostgresCatalog) -> None:
    with psycopg.connect(postgres.url(), autocommit=True) as listener:
        listener.execute(psycopg.sql.SQL("LISTEN {}").format(psycopg.sql.Identifier(channel(schema))))
        catalog.allocate_producer_id_block()
        catalog.change_features(replaced_by({"share.version": 1}))
        assert len(list(listener.notifies(timeout=5, stop_after=1))) == 1
        assert len(list(listener.notifies(timeout=0))) == 0


def test_a_catalog_that_went_back_stops_the_broker(postgres: PostgresServer, schema: str) -> None:
    lost: list[CatalogLost] = []
    catalog = open_shared(postgres, schema, on_lost=lost.append)
    catalog.change_features(replaced_by({"share.version": 1}))
    with pytest.raises(CatalogLost, match="is at version 1, and this broker has seen 2: it was restored"):
        catalog.changes_since(2)
    with pytest.raises(CatalogLost):
        catalog.topics()
    assert len(lost) == 1
    catalog.close()


def test_a_node_id_that_another_instance_uses_is_refused_while_its_lease_lasts(
    catalog: SharedPostgresCatalog, postgres: PostgresServer, schema: str
) -> None:
    catalog.register_broker(1, "first", None, HERE)
    with pytest.raises(NodeIdInUse, match=r"node id 1 is in use by a broker at 127.0.0.1:9092: choose another"):
        catalog.register_broker(1, "second", None, HERE)
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(
            psycopg.sql.SQL("UPDATE {}.broker SET lease_until = now()").format(psycopg.sql.Identifier(schema))
        )
    assert catalog.register_broker(1, "second", None, HERE) == 2


def test_a_broker_that_slept_while_the_schema_was_contracted_does_not_register_again(
    catalog: SharedPostgresCatalog, postgres: PostgresServer, schema: str
) -> None:
    catalog.register_broker(1, "first", None, HERE)
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        contracted = psycopg.sql.SQL("UPDATE {}.schema_version SET version = 99, usable_from = 99")
        connection.execute(contracted.format(psycopg.sql.Identifier(schema)))
    with pytest.raises(CatalogLost, match=r"changed by a newer Penstock .*usable from 99.*: use that version"):
        catalog.register_broker(1, "first", None, HERE)


def test_a_broker_that_registers_again_leads_what_it_led_under_higher_epochs(catalog: SharedPostgresCatalog) -> None:
    catalog.register_broker(1, "first", None, HERE)
    catalog.create_topic("orders", ID, 2, {}, [Placement(1, (1, 2)), Placement(2, (2, 1))])
    catalog.register_broker(1, "first", None, HERE)
    assert catalog.partitions() == [PartitionRow(ID, 0, 1, 1, (1, 2)), PartitionRow(ID, 1, 2, 0, (2, 1))]
    assert Kind.PARTITIONS in catalog.changes_since(0).kinds


def test_what_does_not_fit_the_cluster_is_refused(
    postgres: PostgresServer, schema: str, catalog: SharedPostgresCatalog
) -> None:
    with pytest.raises(CatalogError, match=r"are in memory://, not in s3://b/p: correct --store"):
        open_shared(postgres, schema, store="s3://b/p")
    with pytest.raises(CatalogError, match=r"the data folder belongs to the cluster another-one, and .* correct"):
        open_shared(postgres, schema, cluster_id="another-one")
    open_shared(postgres, schema, cluster_id=catalog.cluster_id).close()
    of_one = new_schema()
    open_postgres(postgres, of_one).close()
    with pytest.raises(CatalogError, match="has one broker, which keeps the records in its data folder"):
        open_shared(postgres, of_one)


def test_a_new_cluster_is_in_the_store_that_was_found_to_work_first(postgres: PostgresServer, schema: str) -> None:
    one, other = (
        SharedPostgresCatalog.open_shared(
            postgres.url(), schema, "here", store=store, on_lost=never_lost, lease_seconds=8.0
        )
        for store in ("s3://typo/p", "s3://bucket/p")
    )
    other.use_store("s3://bucket/p")
    other.use_store("s3://bucket/p")
    with pytest.raises(CatalogError, match=r"are in s3://bucket/p, not in s3://typo/p: correct --store"):
        one.use_store("s3://typo/p")
    one.close()
    other.close()
    open_shared(postgres, schema, store="s3://bucket/p").close()


def test_directions_are_kept_until_a_leader_has_carried_them_out(catalog: SharedPostgresCatalog) -> None:
    epoch = catalog.register_broker(1, "first", None, HERE)
    version = catalog.version()
    catalog.create_topic("orders", ID, 3, {}, [Placement(1, (1, 2))] * 3)
    elected, reassigned = Direction(ID, 0, elected=2), Direction(ID, 1, (3, 4), (1, 2))
    gone = Direction(bytes(16), 0, elected=2)
    catalog.direct_partitions([reassigned, gone, elected])
    assert Kind.PARTITIONS in catalog.changes_since(version).kinds
    untouched = PartitionRow(ID, 2, 1, 0, (1, 2))
    assert catalog.partitions() == [
        PartitionRow(ID, 0, 1, 0, (1, 2), 2),
        PartitionRow(ID, 1, 1, 0, (3, 4), replaced=(1, 2)),
        untouched,
    ]
    catalog.hand_over(1, epoch, [Move(ID, 0, Placement(2, (1, 2))), Move(ID, 1, Placement(9, (3, 4)))])
    assert catalog.partitions() == [
        PartitionRow(ID, 0, 2, 1, (1, 2)),
        PartitionRow(ID, 1, 9, 1, (3, 4), replaced=(1, 2)),  # to none of the new replicas
        untouched,
    ]
    catalog.direct_partitions([Direction(ID, 1, (1, 2), ())])
    assert catalog.partitions()[1] == PartitionRow(ID, 1, 9, 1, (1, 2))
