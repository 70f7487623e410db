"""Backups are made of running and stopped brokers, are whole or no backups, and refuse what would harm."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from penstock import portable
from penstock.broker.cluster_folder import BACKUP_MANIFEST, check_embedded
from penstock.broker.foundation import BACKUP_FOLDER
from penstock.catalog.contract import CatalogError
from penstock.client.sync import Admin, Consumer, Producer
from penstock.client.types import TopicPartition
from penstock.log.cleaner.manager import JOB_FILE
from penstock.log.errors import StorageError
from penstock.operation import make_backup
from penstock.operation.backup_folder import verify
from penstock.operation.restore_backup import restore_backup
from penstock.portable import Space
from tests.broker.process import BrokerProcess
from tests.cli.conftest import command, environment
from tests.cluster.members import INTERNAL
from tests.operation.conftest import done, refused, run, seen

WAIT_SECONDS = 30


def broker(data: Path) -> BrokerProcess:
    return BrokerProcess(data, **INTERNAL)


def comparable(found: dict[str, Any]) -> dict[str, Any]:
    """What must be the same after a restore: open transactions have been aborted, and their marker was appended."""
    kept = {name: found[name] for name in ("topics", "committed", "users", "quotas")}
    records, _ = found["read_committed"]
    kept["records"] = records
    return kept


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def data(full: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(full, tmp_path / "data"))


def test_everything_comes_back_from_the_backup_of_a_running_broker(data: Path, tmp_path: Path) -> None:
    first, second, copy = tmp_path / "first", tmp_path / "second", tmp_path / "copy"
    with broker(data) as process:
        found = seen(process.address)
        made = done("backup", "create", str(first), "--data", str(data))
        assert made["shared_bytes"] == 0
        later = done("backup", "create", str(second), "--data", str(data), "--since", str(first))
        assert later["shared_bytes"] > 3 << 20
        assert later["copied_bytes"] < made["copied_bytes"]
        assert not (data / BACKUP_FOLDER).exists()
        told = refused("backup", "restore", str(second), "--data", str(copy))
        assert f"runs on {data.resolve()}" in told
        assert "--new-cluster" in told
        process.kill()
    shutil.rmtree(first)  # the second does not need it
    assert done("backup", "check", str(second))["damage"] == []
    assert done("backup", "restore", str(second), "--data", str(copy))["cluster"] == made["cluster"]
    with broker(copy) as restored:
        again = seen(restored.address)
        assert comparable(again) == comparable(found)
        assert again["open"][0] in ("CompleteAbort", "Empty")
        with Producer(bootstrap_servers=restored.address, transactional_id="open") as producer, producer.transaction():
            producer.send("orders", b"goes on", partition=1)


def test_everything_comes_back_from_the_backup_of_a_stopped_broker(data: Path, tmp_path: Path) -> None:
    backup, copy = tmp_path / "backup", tmp_path / "copy"
    (data / "tls").mkdir()
    (data / "tls" / "ca.pem").write_text("certificate")
    (data / JOB_FILE).write_text("comes and goes while the cleaner works")
    done("backup", "create", str(backup), "--data", str(data))
    restored = done("backup", "restore", str(backup), "--data", str(copy), "--new-cluster")
    assert not (copy / JOB_FILE).exists()
    assert restored["cluster"] != done("backup", "check", str(backup))["cluster"]
    assert (copy / "tls" / "ca.pem").read_text() == "certificate"
    with broker(data) as original, broker(copy) as process:
        assert comparable(seen(process.address)) == comparable(seen(original.address))


@pytest.mark.long
def test_consumers_that_had_read_further_notice_the_restore(data: Path, tmp_path: Path) -> None:
    backup, copy = tmp_path / "backup", tmp_path / "copy"
    with broker(data) as process:
        with Producer(bootstrap_servers=process.address) as producer:
            done("backup", "create", str(backup), "--data", str(data))
            for _ in range(5):
                producer.send("short", b"after the backup").result()
        with Admin(bootstrap_servers=process.address) as admin:
            before = admin.list_offsets({("short", 0): -1})[TopicPartition("short", 0)]
    done("backup", "restore", str(backup), "--data", str(copy))
    with broker(copy) as restored, Admin(bootstrap_servers=restored.address) as admin:
        after = admin.list_offsets({("short", 0): -1})[TopicPartition("short", 0)]
        assert after.offset == before.offset - 5
        with Producer(bootstrap_servers=restored.address) as producer:
            producer.send("short", b"in its place").result()
        with Consumer(bootstrap_servers=restored.address) as consumer:
            consumer.assign([("short", 0)])
            consumer.seek(("short", 0), after.offset)
            (record,) = consumer.poll(10_000)
            assert record.leader_epoch is not None
            assert record.leader_epoch >= 1000


@pytest.mark.long
def test_several_brokers_are_backed_up_when_they_are_stopped(tmp_path: Path) -> None:
    data, backup, copy = tmp_path / "data", tmp_path / "backup", tmp_path / "copy"
    with BrokerProcess(data, brokers=2, **INTERNAL) as process:
        with Admin(bootstrap_servers=process.address) as admin:
            admin.create_topic("t", 4)
        with Producer(bootstrap_servers=process.address) as producer:
            for number in range(40):
                producer.send("t", b"%d" % number, partition=number % 4)
        assert "stop them for the backup" in refused("backup", "create", str(backup), "--data", str(data))
        assert process.stop() == 0
    done("backup", "create", str(backup), "--data", str(data))
    ran = run("backup", "restore", str(backup), "--data", str(copy))
    assert f"penstock serve --data {copy} --brokers 2" in ran.stderr
    with (
        BrokerProcess(copy, brokers=2, **INTERNAL) as restored,
        Consumer(bootstrap_servers=restored.address, auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([("t", index) for index in range(4)])
        found: list[int] = []
        deadline = time.monotonic() + WAIT_SECONDS
        while len(found) < 40 and time.monotonic() < deadline:
            found += [int(record.value or b"") for record in consumer.poll(500)]
        assert sorted(found) == list(range(40))


@pytest.mark.long
def test_a_command_killed_at_any_moment_leaves_no_backup_and_is_repeated(data: Path, tmp_path: Path) -> None:
    backup, copy = tmp_path / "backup", tmp_path / "copy"
    create = ("backup", "create", str(backup), "--data", str(data))
    bring_back = ("backup", "restore", str(backup), "--data", str(copy), "--new-cluster")
    with broker(data) as process:
        for files in (0, 1, 5, 20):
            kill_after(create, backup / "logs", files)
            assert not (backup / BACKUP_MANIFEST).exists()
            assert "was not finished: make it again" in refused(*bring_back)
            wait_for(lambda: not (data / BACKUP_FOLDER).exists())  # the broker clears up
        done(*create)
        process.kill()
    for files in (3, 20):
        kill_after(bring_back, copy, files)
        with pytest.raises(CatalogError, match="was not restored to the end"):
            check_embedded(copy)
    done(*bring_back)
    with broker(copy) as restored:
        seen(restored.address)


def kill_after(arguments: tuple[str, ...], folder: Path, files: int) -> None:
    """Kill a command as soon as there are so many files."""
    process = subprocess.Popen(
        command(arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment()
    )
    try:
        wait_for(lambda: sum(len(names) for _, _, names in os.walk(folder)) > files or process.poll() is not None)
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait(WAIT_SECONDS)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("stopped")
    with broker(data) as process:
        with Producer(bootstrap_servers=process.address) as producer:
            producer.send("t", bytes(100_000)).result()
        process.stop()
    return data


def make(data: Path, backup: Path) -> None:
    make_backup.make_backup(data, backup, None, lambda done, total: None)


def restore(backup: Path, data: Path) -> None:
    restore_backup(backup, data, lambda done, total: None)


def test_folders_that_a_backup_would_harm_are_refused(stopped: Path, tmp_path: Path) -> None:
    taken, backup = tmp_path / "taken", tmp_path / "backup"
    taken.mkdir()
    (taken / "mine").write_text("")
    with pytest.raises(StorageError, match="is not empty"):
        make(stopped, taken)
    with pytest.raises(StorageError, match="is inside of the data folder"):
        make(stopped, stopped / "backup")
    assert not (stopped / "backup").exists()
    with pytest.raises(StorageError, match="there is no data folder"):
        make(tmp_path / "none", backup)
    with pytest.raises(StorageError, match="is not the data folder of a broker"):
        make(taken, backup)
    (taken / "cluster.json").write_text("{}")
    with pytest.raises(CatalogError, match="back up PostgreSQL"):
        make(taken, backup)
    make(stopped, backup)
    with pytest.raises(StorageError, match="holds a backup already"):
        make(stopped, backup)
    with pytest.raises(CatalogError, match="which no broker may change"):
        check_embedded(backup)
    with pytest.raises(StorageError, match="is inside of the backup"):
        restore(backup, backup / "data")
    with pytest.raises(StorageError, match="is not empty"):
        restore(backup, taken)
    with pytest.raises(StorageError, match="is not a backup"):
        restore(taken, tmp_path / "new")


def test_a_disk_that_is_too_small_is_refused_before_anything_is_copied(
    stopped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portable, "disk_space", lambda path: Space(1 << 30, 50_000))
    with pytest.raises(StorageError, match=r"bytes are needed in .*, and 50,000 are free there"):
        make(stopped, tmp_path / "backup")
    assert not (tmp_path / "backup" / BACKUP_MANIFEST).exists()


def test_two_backups_at_a_time_are_refused(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_backup, "_LOCK_SECONDS", 0.1)
    lock = make_backup._lock(stopped / BACKUP_FOLDER)
    with pytest.raises(StorageError, match="another backup of"):
        make_backup._lock(stopped / BACKUP_FOLDER)
    os.close(lock)


def test_damage_is_found_and_not_restored(stopped: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    make(stopped, backup)
    (log,) = (backup / "logs" / "t-0").glob("*.log")
    with open(log, "r+b") as file:
        file.seek(500)
        file.write(b"!")
    ran = run("backup", "check", str(backup))
    assert ran.returncode == 1
    assert "its contents are not what was copied" in ran.stdout
    with pytest.raises(StorageError, match="is damaged: use another backup"):
        restore(backup, tmp_path / "new")
    with pytest.raises(CatalogError, match="was not restored to the end"):
        check_embedded(tmp_path / "new")
    os.unlink(log)
    assert "No such file" in str(verify(backup, lambda done, total: None)[1])
    manifest = backup / BACKUP_MANIFEST
    manifest.write_text(manifest.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(StorageError, match="newer than this one"):
        verify(backup, lambda done, total: None)
    manifest.write_text("{")
    with pytest.raises(StorageError, match="is damaged"):
        verify(backup, lambda done, total: None)
