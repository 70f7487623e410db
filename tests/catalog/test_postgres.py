"""What only the engine in PostgreSQL does: lost connections, unknown outcomes, and a catalog that others changed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import psycopg
import pytest

from penstock.catalog import postgres as engine
from penstock.catalog.contract import CatalogError, CatalogLost, TopicRow, replaced_by
from penstock.catalog.postgres import PostgresCatalog
from penstock.wire.config_resources import ResourceType
from tests.catalog.postgres_catalogs import new_schema, open_postgres
from tests.catalog.postgres_proxy import PostgresProxy
from tests.catalog.test_contract import ALICE, BOB, DENY_ALL, EVERYBODY, ID, OTHER_ID, READ_ORDERS, everything
from tests.postgres import PostgresServer

Change = Callable[[PostgresCatalog], object]

CHANGES = [
    pytest.param(lambda catalog: catalog.create_topic("payments", OTHER_ID, 1, {"a": "1"}), id="create_topic"),
    pytest.param(lambda catalog: catalog.set_partitions(ID, 7), id="set_partitions"),
    pytest.param(lambda catalog: catalog.change_topic_configs(ID, replaced_by({"b": "2"})), id="change_topic_configs"),
    pytest.param(lambda catalog: catalog.delete_topic(ID), id="delete_topic"),
    pytest.param(
        lambda catalog: catalog.change_configs(ResourceType.GROUP, "g", replaced_by({"b": "2"})), id="change_configs"
    ),
    pytest.param(lambda catalog: catalog.change_features(replaced_by({"share.version": 1})), id="change_features"),
    pytest.param(lambda catalog: catalog.change_acls([DENY_ALL], [READ_ORDERS]), id="change_acls"),
    pytest.param(lambda catalog: catalog.change_credentials([BOB], [("alice", 1)]), id="change_credentials"),
    pytest.param(lambda catalog: catalog.change_quotas({EVERYBODY: replaced_by({"b": 2.0})}), id="change_quotas"),
    pytest.param(lambda catalog: catalog.allocate_producer_id_block(), id="allocate_producer_id_block"),
]


class Stage:
    """A catalog behind a proxy, and the losses it reported."""

    def __init__(self, server: PostgresServer, proxy: PostgresProxy) -> None:
        self.server, self.proxy, self.schema = server, proxy, new_schema()
        self.losses: list[CatalogLost] = []
        self.catalog = open_postgres(server, self.schema, port=proxy.port, on_lost=self.losses.append)

    def sql(self, statement: str, *parameters: object) -> list[tuple[object, ...]]:
        with psycopg.connect(self.server.url(), autocommit=True) as connection:
            schema = psycopg.sql.Identifier(self.schema)
            cursor = connection.execute(psycopg.sql.SQL(statement).format(schema), parameters)
            return cursor.fetchall() if cursor.description else []


@pytest.fixture
def stage(postgres: PostgresServer) -> Iterator[Stage]:
    with PostgresProxy(postgres.port) as proxy:
        stage = Stage(postgres, proxy)
        yield stage
        stage.catalog.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outcomes that stay unknown are given up at once."""
    monkeypatch.setattr(engine, "SETTLE_SECONDS", 0.0)


def fill(catalog: PostgresCatalog) -> None:
    catalog.create_topic("orders", ID, 1, {"a": "1"})
    catalog.change_configs(ResourceType.GROUP, "g", replaced_by({"a": "1"}))
    catalog.change_acls([READ_ORDERS], [])
    catalog.change_credentials([ALICE], [])
    catalog.change_quotas({EVERYBODY: replaced_by({"a": 1.0})})


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("fault", ["cut_before", "cut_after"])
def test_a_change_whose_commit_is_cut_off_is_made_once(
    stage: Stage, fault: str, change: Change, postgres: PostgresServer
) -> None:
    fill(stage.catalog)
    undisturbed = open_postgres(postgres, new_schema())
    fill(undisturbed)
    expected = change(undisturbed)
    setattr(stage.proxy, fault, b"COMMIT")
    assert change(stage.catalog) == expected
    assert stage.proxy.faults == 1
    # All but the cluster's id and secret, which differ.
    assert list(everything(stage.catalog))[1:5] == list(everything(undisturbed))[1:5]  # type: ignore[call-overload]
    assert list(everything(stage.catalog))[5][1:] == list(everything(undisturbed))[5][1:]  # type: ignore[call-overload]
    assert stage.catalog.allocate_producer_id_block() == undisturbed.allocate_producer_id_block()
    undisturbed.close()


@pytest.mark.parametrize("statement", [b"BEGIN", b"UPDATE cluster", b"INSERT INTO topic "])
def test_a_connection_lost_before_the_commit_is_replaced(stage: Stage, statement: bytes) -> None:
    stage.proxy.cut_before = statement
    stage.catalog.create_topic("orders", ID, 3, {})
    assert stage.proxy.faults == 1
    assert stage.catalog.topics() == [TopicRow("orders", ID, 3, {})]


def test_a_connection_lost_between_two_reads_is_replaced(stage: Stage) -> None:
    stage.catalog.create_topic("orders", ID, 3, {})
    stage.proxy.cut_all()
    assert stage.catalog.topics() == [TopicRow("orders", ID, 3, {})]


def test_a_server_that_is_away_is_reported_and_nothing_changes(stage: Stage) -> None:
    before = everything(stage.catalog)
    stage.proxy.refuses = True
    stage.proxy.cut_all()
    with pytest.raises(CatalogError, match="cannot reach PostgreSQL"):
        stage.catalog.create_topic("orders", ID, 3, {})
    with pytest.raises(CatalogError, match="cannot reach PostgreSQL"):
        stage.catalog.topics()
    stage.proxy.refuses = False
    while True:  # until the pause after a failure has passed
        try:
            assert everything(stage.catalog) == before
            break
        except CatalogError:
            continue
    stage.catalog.create_topic("orders", ID, 3, {})


@pytest.mark.parametrize("statement", [b"INSERT INTO topic ", b"COMMIT"])
def test_a_connection_without_an_answer_is_given_up(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, statement: bytes
) -> None:
    monkeypatch.setattr("penstock.catalog.postgres_session.ANSWER_SECONDS", 0.3)
    stage.proxy.swallow = statement
    stage.catalog.create_topic("orders", ID, 3, {})
    assert stage.proxy.faults == 1
    assert [row.name for row in stage.catalog.topics()] == ["orders"]


def away_after_the_cut(stage: Stage) -> None:
    stage.proxy.after_cut = lambda: setattr(stage.proxy, "refuses", True)


def test_an_unknown_outcome_is_refused_and_settled_by_the_next_call(stage: Stage, impatient: None) -> None:
    stage.proxy.cut_before = b"COMMIT"
    away_after_the_cut(stage)
    with pytest.raises(CatalogError):
        stage.catalog.create_topic("orders", ID, 3, {})
    stage.proxy.refuses = False
    assert stage.catalog.topics() == []
    stage.catalog.create_topic("orders", ID, 3, {})
    assert stage.losses == []


def test_a_refused_change_that_was_made_after_all_stops_the_broker(stage: Stage, impatient: None) -> None:
    stage.proxy.cut_after = b"COMMIT"
    away_after_the_cut(stage)
    with pytest.raises(CatalogError):
        stage.catalog.create_topic("orders", ID, 3, {})
    assert stage.losses == []
    stage.proxy.refuses = False
    with pytest.raises(CatalogLost, match="has been made after all"):
        stage.catalog.topics()
    assert len(stage.losses) == 1
    with pytest.raises(CatalogLost):
        stage.catalog.allocate_producer_id_block()
    stage.catalog.close()
    again = open_postgres(stage.server, stage.schema)
    assert [row.name for row in again.topics()] == ["orders"]
    again.close()


def test_a_catalog_that_is_not_as_the_broker_left_it_is_not_overwritten(stage: Stage) -> None:
    stage.catalog.create_topic("orders", ID, 3, {})
    stage.sql("UPDATE {}.cluster SET last_change = 'of a backup'")
    with pytest.raises(CatalogLost, match="restored from a backup"):
        stage.catalog.delete_topic(ID)
    assert len(stage.losses) == 1
    assert stage.sql("SELECT name FROM {}.topic") == [("orders",)]


def test_a_broker_that_was_taken_over_changes_nothing(stage: Stage) -> None:
    stage.sql("UPDATE {}.cluster SET owner_epoch = owner_epoch + 1, owner = 'another broker'")
    with pytest.raises(CatalogLost, match=r"taken over .another broker"):
        stage.catalog.create_topic("orders", ID, 3, {})
    assert len(stage.losses) == 1
    assert stage.sql("SELECT name FROM {}.topic") == []


def test_a_row_that_somebody_else_holds_is_waited_for_in_bounds(stage: Stage) -> None:
    with psycopg.connect(stage.server.url()) as other:
        other.execute(
            psycopg.sql.SQL("UPDATE {}.cluster SET owner = owner").format(psycopg.sql.Identifier(stage.schema))
        )
        with pytest.raises(CatalogError, match="lock timeout"):
            stage.catalog.create_topic("orders", ID, 3, {})
        other.rollback()
    stage.catalog.create_topic("orders", ID, 3, {})


def test_clusters_in_one_database_do_not_meet(stage: Stage) -> None:
    other = open_postgres(stage.server, new_schema())
    stage.catalog.create_topic("orders", ID, 3, {})
    assert other.topics() == []
    assert other.cluster_id != stage.catalog.cluster_id
    other.close()


def test_a_name_that_postgresql_cannot_keep_is_refused(stage: Stage) -> None:
    with pytest.raises(CatalogError, match="NUL"):
        stage.catalog.change_configs(ResourceType.GROUP, "g\0", replaced_by({"a": "1"}))
    stage.catalog.change_configs(ResourceType.GROUP, "g", replaced_by({"a": "1"}))


def test_importing_the_broker_does_not_load_psycopg() -> None:
    program = "import sys, penstock.broker.server; sys.exit('psycopg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
