"""What the embedded broker stands on is its own, is opened whole or not at all, and is given back."""

from __future__ import annotations

import re
import socket
import sys
import uuid
from pathlib import Path

import pytest

from penstock.broker.config import BrokerConfig
from penstock.broker.foundation import CATALOG_FILE, Foundation, Settings, local_foundation, open_catalog
from penstock.broker.listeners import ListenError
from penstock.catalog.contract import CatalogError
from penstock.log.errors import FolderInUse
from penstock.storage.contract import StorageError
from tests.broker.simulated_world import SimulatedWorld
from tests.postgres import PostgresServer


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def never_fails(error: StorageError | CatalogError) -> None:
    raise error


def lay(settings: Settings) -> Foundation:
    return local_foundation(settings, BrokerConfig({}), SimulatedWorld(), never_fails)


def give_back(foundation: Foundation) -> None:
    foundation.storage.close()
    foundation.catalog.close()
    foundation.release()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path / "not" / "there" / "yet", ["127.0.0.1:0"])


def test_the_data_folder_is_made_and_holds_the_catalog(settings: Settings) -> None:
    foundation = lay(settings)
    assert (settings.data / CATALOG_FILE).is_file()
    cluster_id = foundation.catalog.cluster_id
    give_back(foundation)
    again = lay(settings)
    assert again.catalog.cluster_id == cluster_id
    give_back(again)


def test_a_folder_has_one_broker_at_a_time(settings: Settings) -> None:
    first = lay(settings)
    with pytest.raises(FolderInUse, match="in use by another process"):
        lay(settings)
    give_back(first)
    give_back(lay(settings))


def test_a_catalog_that_cannot_be_used_leaves_the_folder_unlocked(settings: Settings) -> None:
    settings.data.mkdir(parents=True)
    (settings.data / CATALOG_FILE).write_bytes(b"no database" * 1000)
    with pytest.raises(CatalogError):
        lay(settings)
    (settings.data / CATALOG_FILE).unlink()
    give_back(lay(settings))


def test_listeners_are_opened_when_they_are_asked_for(settings: Settings) -> None:
    port = free_port()
    settings.listen = [f"127.0.0.1:{port}", "127.0.0.1:0"]
    foundation = lay(settings)
    with socket.create_server(("127.0.0.1", port)):
        pass
    listeners = foundation.open_listeners()
    assert listeners[0].port == port
    assert listeners[1].port > 0
    for listener in listeners:
        listener.close()
    give_back(foundation)


def test_a_listener_that_cannot_be_opened_closes_those_opened_before_it(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = free_port()
        settings.listen = [f"127.0.0.1:{port}", f"127.0.0.1:{taken.getsockname()[1]}"]
        foundation = lay(settings)
        with pytest.raises(ListenError, match="in use by another program"):
            foundation.open_listeners()
        with socket.create_server(("127.0.0.1", port)):
            pass
        give_back(foundation)


def test_the_catalog_of_a_folder_can_be_opened_only_while_no_broker_has_it(settings: Settings) -> None:
    with open_catalog(settings.data) as catalog:
        cluster_id = catalog.cluster_id
    foundation = lay(settings)
    try:
        assert foundation.catalog.cluster_id == cluster_id
        with pytest.raises(FolderInUse), open_catalog(settings.data):
            pass
    finally:
        give_back(foundation)


# -- the catalog in PostgreSQL -----------------------------------------------------------------------------------------


@pytest.fixture
def clustered(settings: Settings, postgres: PostgresServer) -> Settings:
    settings.cluster = postgres.url(f"s{uuid.uuid4().hex}")
    return settings


def test_a_cluster_has_its_catalog_in_postgresql_and_its_records_in_the_folder(clustered: Settings) -> None:
    foundation = lay(clustered)
    foundation.catalog.create_topic("orders", bytes(16), 1, {})
    cluster_id = foundation.catalog.cluster_id
    give_back(foundation)
    assert not (clustered.data / CATALOG_FILE).exists()
    again = lay(clustered)
    assert again.catalog.cluster_id == cluster_id
    assert [row.name for row in again.catalog.topics()] == ["orders"]
    give_back(again)


def test_the_folder_of_a_cluster_is_not_served_without_it(clustered: Settings) -> None:
    give_back(lay(clustered))
    clustered.cluster = None
    with pytest.raises(CatalogError, match="start its broker with --cluster"):
        lay(clustered)
    with pytest.raises(CatalogError, match="have the running broker change users"), open_catalog(clustered.data):
        pass
    assert not (clustered.data / CATALOG_FILE).exists()


def test_the_folder_of_an_embedded_broker_is_not_served_in_a_cluster(clustered: Settings) -> None:
    cluster, clustered.cluster = clustered.cluster, None
    give_back(lay(clustered))
    clustered.cluster = cluster
    with pytest.raises(CatalogError, match="name an empty folder"):
        lay(clustered)
    clustered.cluster = None
    give_back(lay(clustered))


def test_the_folder_of_one_cluster_is_not_served_in_another(clustered: Settings, postgres: PostgresServer) -> None:
    give_back(lay(clustered))
    first, clustered.cluster = clustered.cluster, postgres.url(f"s{uuid.uuid4().hex}")
    with pytest.raises(CatalogError, match="correct --cluster or --data"):
        lay(clustered)
    clustered.cluster = first
    give_back(lay(clustered))


def test_a_cluster_is_not_served_from_another_folder(clustered: Settings, tmp_path: Path) -> None:
    give_back(lay(clustered))
    clustered.data = tmp_path / "elsewhere"
    with pytest.raises(CatalogError, match="in another data folder"):
        lay(clustered)


def test_without_psycopg_the_extra_is_named(clustered: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "penstock.catalog.postgres", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(CatalogError, match=re.escape("pip install 'penstock[cluster]'")):
        lay(clustered)


def test_settings_do_not_show_the_password_of_a_cluster() -> None:
    assert "hunter2" not in repr(Settings(cluster="postgresql://u:hunter2@db/p"))
