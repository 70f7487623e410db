"""A data folder goes into a cluster and comes out: every record, offset, group, queue and transaction is the same."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
import uuid
from pathlib import Path

import psycopg
import pytest

from penstock.catalog.sqlite import SqliteCatalog
from penstock.client.sync import Producer, ShareConsumer
from penstock.log.files import FolderLock
from tests.broker.process import BrokerProcess
from tests.cli.conftest import command, environment
from tests.operation.conftest import done, refused, run, seen
from tests.operation.fingerprint import of_folder
from tests.seaweedfs import SeaweedServer


def copied(full: Path, tmp_path: Path) -> Path:
    shutil.copytree(full, tmp_path / "data")
    return tmp_path / "data"


def test_what_goes_in_comes_out_byte_by_byte(
    full: Path, tmp_path: Path, cluster: str, s3: SeaweedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    data, store = copied(full, tmp_path), "s3://bucket/import"
    planned = done("cluster", "import", str(data), "--cluster", cluster, "--store", store, "--dry-run")
    assert planned["imported"] is False
    imported = done("cluster", "import", str(data), "--cluster", cluster, "--store", store)
    assert imported == {**planned, "imported": True, "uploaded": imported["segments"]}
    assert imported["segments"] > 5
    checked = done("cluster", "check", "--cluster", cluster)
    assert (checked["findings"], checked["segments"], checked["young"]) == ([], imported["segments"], 0)
    out = tmp_path / "out"
    exported = done("cluster", "export", str(out), "--cluster", cluster)
    assert exported["partitions"] == imported["partitions"]
    assert of_folder(out) == of_folder(data)


def test_clients_find_everything_before_in_and_after_the_cluster(full: Path, tmp_path: Path, cluster: str) -> None:
    data, store = copied(full, tmp_path), f"file://{tmp_path}/store"
    with BrokerProcess(data) as process:
        before = seen(process.address)
        assert process.stop() == 0
    assert before["open"][0] == "Ongoing"
    done("cluster", "import", str(data), "--cluster", cluster, "--store", store)
    with BrokerProcess(tmp_path / "cache", cluster=cluster, store=store) as process:
        assert seen(process.address) == before
        settings = {"bootstrap.servers": process.address}
        with Producer(settings, transactional_id="open") as producer, producer.transaction():  # ends the open one
            producer.send("orders", b"in the cluster", partition=1)
            producer.send("orders", bytes(700_000), partition=2)
        with ShareConsumer(settings, group_id="queue", share_acknowledgement_mode="explicit") as worker:
            worker.subscribe(["short"])
            (record,) = worker.take(1, 30_000)
            assert (record.offset, record.delivery_count) == (3, 2)
            worker.accept(record)
            assert set(worker.commit().values()) == {None}
        within = seen(process.address)
        busy = refused("cluster", "export", str(tmp_path / "out"), "--cluster", cluster)
        assert "stop" in busy
        assert process.stop() == 0
    done("cluster", "export", str(tmp_path / "out"), "--cluster", cluster)
    with BrokerProcess(tmp_path / "out") as process:
        assert seen(process.address) == within
        settings = {"bootstrap.servers": process.address}
        with Producer(settings, transactional_id="open") as producer, producer.transaction():
            producer.send("orders", b"after it", partition=1)
        assert process.stop() == 0


def test_the_folder_of_several_brokers_goes_in_with_the_logs_of_each(
    full_of_several: Path, tmp_path: Path, cluster: str
) -> None:
    data, store = copied(full_of_several, tmp_path), f"file://{tmp_path}/store"
    owned = [sum(each.is_dir() for each in folder.iterdir()) for folder in data.glob("brokers/*")]
    assert len(owned) == 2
    assert min(owned) > 1  # orders, and some of each internal topic
    with BrokerProcess(data, brokers=2) as process:
        before = seen(process.address)
        assert process.stop() == 0
    assert before["open"][0] == "Ongoing"
    imported = done("cluster", "import", str(data), "--cluster", cluster, "--store", store)
    assert imported["partitions"] == sum(owned)
    assert done("cluster", "check", "--cluster", cluster)["findings"] == []
    done("cluster", "export", str(tmp_path / "out"), "--cluster", cluster)
    assert of_folder(tmp_path / "out") == of_folder(data)
    with BrokerProcess(tmp_path / "cache", cluster=cluster, store=store) as process:
        assert seen(process.address) == before
        settings = {"bootstrap.servers": process.address}
        with Producer(settings, transactional_id="open") as producer, producer.transaction():  # ends the open one
            producer.send("orders", b"in the cluster", partition=1)
        with ShareConsumer(settings, group_id="queue", share_acknowledgement_mode="explicit") as worker:
            worker.subscribe(["short"])
            (record,) = worker.take(1, 30_000)
            assert (record.offset, record.delivery_count) == (3, 2)
            worker.accept(record)
            assert set(worker.commit().values()) == {None}
        assert process.stop() == 0


def test_of_several_brokers_the_one_that_runs_or_was_killed_is_named(
    full_of_several: Path, tmp_path: Path, cluster: str
) -> None:
    data = copied(full_of_several, tmp_path)
    arguments = ["cluster", "import", str(data), "--cluster", cluster, "--store", f"file://{tmp_path}/store"]
    with BrokerProcess(data, brokers=2) as process:
        assert "is in use by another process" in refused(*arguments)
        assert process.stop() == 0
    lock = FolderLock(data / "brokers" / "2")  # as held by a broker that survives its supervisor for a moment
    assert "brokers/2 is in use by another process" in refused(*arguments)
    lock.release()
    clean = data / "brokers" / "2" / ".kafka_cleanshutdown"
    clean.rename(tmp_path / "clean")
    assert f"roker 2 of {data} was killed: start it once more and stop it" in refused(*arguments)
    (tmp_path / "clean").rename(clean)
    (data / "brokers" / "2").rename(tmp_path / "2")
    assert "brokers/2 is missing, and broker 2 has partitions" in refused(*arguments)
    (tmp_path / "2").rename(data / "brokers" / "2")
    catalog = SqliteCatalog.open(data / "catalog.sqlite")
    catalog.create_topic("new", uuid.uuid4().bytes, 1, {})  # as a crash in the middle of becoming several leaves it
    catalog.close()
    assert "new-0 has no owner yet" in refused(*arguments)


def kill_when(arguments: list[str], condition: Path, pattern: str) -> None:
    """SIGKILL a command as soon as a file is there."""
    process = subprocess.Popen(command(tuple(arguments)), env=environment())
    deadline = time.monotonic() + 60
    while process.poll() is None and not list(condition.rglob(pattern)):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def test_a_killed_import_leaves_no_cluster_and_is_repeated(full: Path, tmp_path: Path, cluster: str) -> None:
    data, store = copied(full, tmp_path), tmp_path / "store"
    arguments = ["cluster", "import", str(data), "--cluster", cluster, "--store", f"file://{store}"]
    kill_when(arguments, store, "import/*")
    assert "There is no cluster" in refused("cluster", "check", "--cluster", cluster)
    first = {path.name for path in store.rglob("import/*")}
    note = json.loads((data / "cluster-import.json").read_text())
    assert note["finished"] is False
    imported = done(*arguments)
    assert imported["uploaded"] <= imported["segments"]
    assert note["incarnation"] in {path.name for path in store.rglob("*") if path.is_dir()}
    stored = {path.name for path in store.rglob("import/*") if "#" not in path.name}  # of uploads that were cut off
    assert len(stored) == imported["segments"]
    assert {name for name in first if "#" not in name} <= stored
    again = done(*arguments)
    assert (again["imported"], again["uploaded"]) == (True, 0)
    done("cluster", "export", str(tmp_path / "out"), "--cluster", cluster)
    assert of_folder(tmp_path / "out") == of_folder(data)


def test_a_killed_export_is_served_by_nobody_and_is_repeated(full: Path, tmp_path: Path, cluster: str) -> None:
    data, store, out = copied(full, tmp_path), f"file://{tmp_path}/store", tmp_path / "out"
    done("cluster", "import", str(data), "--cluster", cluster, "--store", store)
    arguments = ["cluster", "export", str(out), "--cluster", cluster]
    out.mkdir()
    kill_when(arguments, out, "__consumer_offsets-1*")
    assert not (out / "catalog.sqlite").exists()
    serving = subprocess.run(BrokerProcess(out).command(), capture_output=True, text=True, timeout=60)
    assert serving.returncode == 1
    assert "export that was not finished" in " ".join(serving.stderr.split())
    done(*arguments)
    assert of_folder(out) == of_folder(data)
    assert "is not empty" in refused(*arguments)


def test_what_cannot_be_imported_is_refused_with_what_to_do(full: Path, tmp_path: Path, cluster: str) -> None:
    data, store = copied(full, tmp_path), f"file://{tmp_path}/store"
    arguments = ["cluster", "import", str(data), "--cluster", cluster, "--store", store]
    with BrokerProcess(data) as process:
        assert "is in use by another process" in refused(*arguments)
        process.kill()
        assert "start it once more and stop it" in refused(*arguments)
        process.start()
        assert process.stop() == 0
    with BrokerProcess(tmp_path / "cache", cluster=cluster, store=store) as process:
        assert "name an empty schema" in refused(*arguments)
        assert process.stop() == 0
    assert "name an empty schema" in refused(*arguments, "--dry-run")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "is not the data folder of a broker" in refused(*[*arguments[:2], str(empty), *arguments[3:]])
    (segment,) = (data / "short-0").glob("*.log")
    with open(segment, "r+b") as file:
        file.seek(100)
        file.write(b"rot")
    other = cluster + "x"
    found = run(*["cluster", "import", str(data), "--cluster", other, "--store", store])
    assert found.returncode == 1
    assert "holds the objects of another cluster" in " ".join(found.stderr.split())
    found = run(*["cluster", "import", str(data), "--cluster", other, "--store", f"{store}/other"])
    assert found.returncode == 1
    assert "is damaged" in " ".join(found.stderr.split())
    with psycopg.connect(cluster.partition("?")[0]) as connection:
        schema = other.rpartition("=")[2]
        assert connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone() is None
