"""What a container runs: the entry point, with the environment that compose files for Apache Kafka have."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench.peers import answers_api_versions, free_port

PACKAGING = Path(__file__).parents[2] / "packaging"
ENTRYPOINT = PACKAGING / "container" / "entrypoint"


def environment(**extra: str) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "KAFKA_"))}
    return {**kept, "PATH": path, **extra}


@pytest.fixture
def arguments(tmp_path: Path) -> Path:
    """A folder with a `penstock` that prints its arguments."""
    fake = tmp_path / "penstock"
    fake.write_text('#!/bin/sh\necho "$@"\n')
    fake.chmod(0o755)
    return tmp_path


def called(folder: Path, *words: str, **extra: str) -> str:
    made = environment(**extra)
    made["PATH"] = f"{folder}:{made['PATH']}"
    return subprocess.run(
        ["sh", str(ENTRYPOINT), *words], env=made, check=True, capture_output=True, text=True, timeout=30
    ).stdout.strip()


def test_it_serves_all_addresses_unless_listeners_are_named(arguments: Path) -> None:
    assert called(arguments) == "serve --listen PLAINTEXT://0.0.0.0:9092 --data /data"
    assert called(arguments, "serve") == "serve --listen PLAINTEXT://0.0.0.0:9092 --data /data"
    assert called(arguments, KAFKA_LISTENERS="PLAINTEXT://:9092") == "serve --data /data"
    assert called(arguments, "serve", "--secure", PENSTOCK_LISTEN="x") == "serve --data /data --secure"


def test_other_commands_run_as_they_are(arguments: Path) -> None:
    assert called(arguments, "topic", "list") == "topic list"


def test_a_broker_obeys_kafka_s_environment_and_stops_on_sigterm(tmp_path: Path) -> None:
    port = free_port()
    configured = environment(
        KAFKA_LISTENERS=f"PLAINTEXT://127.0.0.1:{port}",
        KAFKA_NUM_PARTITIONS="3",
        KAFKA_PENSTOCK_METRICS_LISTEN=f"127.0.0.1:{free_port()}",
        PENSTOCK_DATA=str(tmp_path / "data"),
    )
    with subprocess.Popen(["sh", str(ENTRYPOINT)], env=configured, stdout=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stdout is not None
            assert f"serves 127.0.0.1:{port}" in broker.stdout.readline()
            assert answers_api_versions(port)
            shown = subprocess.run(
                [sys.executable, "-m", "penstock.cli.main", "config", "get", "broker", "1", "num.partitions"],
                env=environment(PENSTOCK_BOOTSTRAP=f"127.0.0.1:{port}"),
                capture_output=True,
                text=True,
                timeout=60,
            )
            assert re.search(r"num\.partitions\s+3", shown.stdout), shown.stdout + shown.stderr
            broker.send_signal(signal.SIGTERM)
            assert broker.wait(30) == 0
        finally:
            broker.kill()
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("file", sorted((PACKAGING / "compose").glob("*.yml")), ids=lambda path: path.name)
def test_compose_files_name_configs_that_exist(file: Path) -> None:
    from penstock.broker.config import BrokerConfig, from_environment

    found = dict(re.findall(r"^ +(KAFKA_[A-Z_]+): \"?(.+?)\"?$", file.read_text(), re.MULTILINE))
    config = BrokerConfig(from_environment(found))
    assert not config.unknown
    assert "read_only: true" in file.read_text()


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which("buildah") is None or os.geteuid() != 0, reason="needs buildah and root")
def test_the_image_is_built_and_serves() -> None:
    done = subprocess.run(["bash", str(PACKAGING / "container" / "try")], capture_output=True, text=True, timeout=880)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
