"""`penstock cluster check` on a real cluster: sound, then with an object lost; and what all its commands refuse."""

from __future__ import annotations

import json
import subprocess
import uuid
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from penstock.catalog.postgres_schema import migrate
from penstock.cli.cluster import cluster as group
from penstock.client.sync import Producer
from tests.broker.process import BrokerProcess
from tests.cli.conftest import command, environment
from tests.postgres import PostgresServer


def check(cluster: str, *options: str) -> subprocess.CompletedProcess[str]:
    arguments = command(("cluster", "check", "--cluster", cluster, *options))
    return subprocess.run(arguments, capture_output=True, text=True, timeout=60, env=environment())


def test_a_check_passes_until_an_object_is_lost(tmp_path: Path, postgres: PostgresServer) -> None:
    cluster = postgres.url(f"s{uuid.uuid4().hex}")
    store = tmp_path / "store"
    with BrokerProcess(tmp_path / "data", cluster=cluster, store=f"file://{store}") as process:
        with Producer(bootstrap_servers=process.address) as producer:
            producer.send("orders", b"small").result()
            producer.send("orders", bytes(700_000)).result()
        running = check(cluster)
        assert (running.returncode, running.stdout) == (0, ""), running.stderr
        assert "everything is there and readable" in running.stderr
        assert process.stop() == 0
    (stored,) = store.rglob("wal/*/*")
    stored.unlink()
    lost = check(cluster, "--json")
    assert lost.returncode == 1
    (finding,) = json.loads(lost.stdout)["findings"]
    assert (finding["trouble"], finding["partition"]) == ("missing", "orders-0")
    assert finding["object"] == str(stored.relative_to(store))
    shown = check(cluster, "--quick")
    assert shown.returncode == 1
    assert "orders-0" in shown.stdout


def test_a_database_without_a_cluster_is_refused_with_what_to_do(postgres: PostgresServer) -> None:
    refused = check(postgres.url("nothing"))
    assert refused.returncode == 1
    assert "There is no cluster in the schema 'nothing'" in " ".join(refused.stderr.split())


@pytest.mark.parametrize("words", ["status", "check", "drain 1", "adopt-backup", "export x", "import . --store s3://b"])
def test_every_command_refuses_a_schema_that_has_become_too_new(
    words: str, postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    schema = f"s{uuid.uuid4().hex}"
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("SELECT set_config('search_path', %s, false)", (schema,))
        migrate(connection, schema, "here")
        connection.execute("UPDATE schema_version SET version = 99, usable_from = 99")
    result = CliRunner().invoke(group, [*words.split(), "--cluster", postgres.url(schema)])
    assert result.exit_code == 1
    assert "was changed by a newer Penstock" in " ".join(result.output.split())
