"""What a container runs: the entry point, with the environment that compose files for Apache Kafka have."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
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


def test_data_goes_where_the_compose_file_has_its_volume(arguments: Path, tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("overlay / overlay rw 0 0\n/dev/vda /var/lib/kafka/data ext4 rw 0 0\n")
    assert called(arguments, PENSTOCK_MOUNTS=str(mounts)).endswith("--data /var/lib/kafka/data")
    assert called(arguments, PENSTOCK_MOUNTS=str(mounts), KAFKA_LOG_DIRS="/kafka").endswith("--data /kafka")
    assert called(arguments, KAFKA_LOG_DIRS="/kafka", PENSTOCK_DATA="/other").endswith("--data /other")


def test_what_is_advertised_says_on_which_ports_to_listen(tmp_path: Path) -> None:
    """As in Confluent's image, whose compose files name no listeners."""
    fake = tmp_path / "penstock"
    fake.write_text('#!/bin/sh\necho "$KAFKA_LISTENERS"\n')
    fake.chmod(0o755)
    advertised = "PLAINTEXT://kafka:29092,PLAINTEXT_HOST://localhost:9092"
    listeners = "PLAINTEXT://0.0.0.0:29092,PLAINTEXT_HOST://0.0.0.0:9092"
    assert called(tmp_path, KAFKA_ADVERTISED_LISTENERS=advertised) == listeners
    assert called(tmp_path, KAFKA_CFG_ADVERTISED_LISTENERS=advertised) == listeners
    assert called(tmp_path, KAFKA_ADVERTISED_LISTENERS="SSL://[::1]:9093") == "SSL://0.0.0.0:9093"
    assert called(tmp_path, KAFKA_ADVERTISED_LISTENERS=advertised, KAFKA_LISTENERS="INSIDE://:1") == "INSIDE://:1"


def test_what_is_not_obeyed_is_said(arguments: Path) -> None:
    made = environment(
        KAFKA_CLIENT_USERS="alice", KAFKA_CREATE_TOPICS="a:1:1", PATH=f"{arguments}:{os.environ['PATH']}"
    )
    done = subprocess.run(["sh", str(ENTRYPOINT)], env=made, check=True, capture_output=True, text=True, timeout=30)
    assert "KAFKA_CLIENT_USERS is not obeyed: create users with 'penstock user add'" in done.stderr
    assert "KAFKA_CREATE_TOPICS is not obeyed" in done.stderr
    assert "KAFKA_OPTS" not in done.stderr


@pytest.fixture
def tools(arguments: Path) -> Path:
    """A folder with the links that the image has."""
    listed = joined().partition("for tool in ")[2].partition("; do")[0].split()
    assert len(listed) == 5
    for name in listed:
        (arguments / name).symlink_to(PACKAGING / "container" / "kafka-tool")
        (arguments / f"{name}.sh").symlink_to(PACKAGING / "container" / "kafka-tool")
    for name in ("cub", "nc"):
        assert f"ln -s kafka-tool {name}" in joined()
        (arguments / name).symlink_to(PACKAGING / "container" / "kafka-tool")
    return arguments


def joined() -> str:
    return (PACKAGING / "container" / "Containerfile").read_text().replace("\\\n", " ") + " "


@pytest.mark.parametrize(
    ("command", "runs"),
    [
        ("kafka-topics --bootstrap-server kafka:9092 --list", "topic list --bootstrap kafka:9092"),
        (
            "kafka-topics.sh --create --if-not-exists --topic orders --partitions=3 --replication-factor 1"
            " --config retention.ms=1000 --bootstrap-server kafka:9092",
            "topic create orders --if-not-exists --partitions 3 -c retention.ms=1000 --bootstrap kafka:9092",
        ),
        ("kafka-topics.sh --describe --bootstrap-server=kafka:9092", "topic list --bootstrap kafka:9092"),
        (
            "kafka-topics --delete --topic orders --bootstrap-server k:1 --command-config f",
            "topic delete orders --bootstrap k:1 --client-config f",
        ),
        ("kafka-broker-api-versions.sh --bootstrap-server kafka:9092", "topic list --bootstrap kafka:9092"),
        ("kafka-console-producer --topic orders --broker-list k:1", "produce orders --create --bootstrap k:1"),
        (
            "kafka-console-consumer.sh --topic orders --from-beginning --max-messages 3 --bootstrap-server k:1",
            "consume orders --from beginning --max 3 --bootstrap k:1",
        ),
        (
            "kafka-consumer-groups --bootstrap-server k:1 --describe --group g",
            "group describe g --bootstrap k:1",
        ),
        ("cub kafka-ready -b k:1 1 5", ""),
    ],
)
def test_tools_that_compose_files_call_become_commands(tools: Path, command: str, runs: str) -> None:
    made = environment()
    made["PATH"] = f"{tools}:{made['PATH']}"
    done = subprocess.run(command.split(), env=made, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout.strip()) == (0, runs), done.stderr


def test_a_tool_says_what_it_cannot_do(tools: Path) -> None:
    done = subprocess.run([tools / "kafka-topics", "--alter"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert "see: penstock topic" in done.stderr
    closed = subprocess.run(["nc", "-z", "127.0.0.1", str(free_port())], executable=tools / "nc", timeout=30)
    assert closed.returncode == 1


def test_several_folders_of_kafka_are_refused_with_what_to_do(arguments: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        called(arguments, KAFKA_LOG_DIRS="/one,/two")
    assert refused.value.returncode == 64
    assert "penstock adopt" in refused.value.stderr


def test_other_commands_run_as_they_are(arguments: Path) -> None:
    assert called(arguments, "topic", "list") == "topic list"


# What the documentation of each image gives as its compose file for one node.
COMPOSED = {
    "apache/kafka": {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:PORT,CONTROLLER://localhost:CONTROLLER_PORT",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://127.0.0.1:PORT",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:CONTROLLER_PORT",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_NUM_PARTITIONS": "3",
        "KAFKA_LOG_DIRS": "FOLDER",
    },
    "confluentinc/cp-kafka with ZooKeeper": {
        "KAFKA_BROKER_ID": "1",
        "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://127.0.0.1:PORT,PLAINTEXT_HOST://localhost:INSIDE_PORT",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_NUM_PARTITIONS": "3",
        "KAFKA_LOG_DIRS": "FOLDER",
    },
    "confluentinc/cp-kafka": {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": "BROKER://127.0.0.1:INSIDE_PORT,CONTROLLER://localhost:CONTROLLER_PORT,HOST://127.0.0.1:PORT",
        "KAFKA_ADVERTISED_LISTENERS": "BROKER://127.0.0.1:INSIDE_PORT,HOST://127.0.0.1:PORT",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,BROKER:PLAINTEXT,HOST:PLAINTEXT",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:CONTROLLER_PORT",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_LOG_DIRS": "FOLDER",
        "KAFKA_NUM_PARTITIONS": "3",
        "KAFKA_JMX_PORT": "9101",
        "KAFKA_LOG4J_ROOT_LOGLEVEL": "WARN",
        "KAFKA_HEAP_OPTS": "-Xmx512m",
        "CLUSTER_ID": "MkU3OEVBNTcwNTJENDM2Qk",
    },
    "bitnami/kafka": {
        "KAFKA_CFG_NODE_ID": "1",
        "KAFKA_CFG_PROCESS_ROLES": "controller,broker",
        "KAFKA_CFG_CONTROLLER_QUORUM_VOTERS": "1@localhost:CONTROLLER_PORT",
        "KAFKA_CFG_LISTENERS": "PLAINTEXT://127.0.0.1:PORT,CONTROLLER://localhost:CONTROLLER_PORT",
        "KAFKA_CFG_ADVERTISED_LISTENERS": "PLAINTEXT://127.0.0.1:PORT",
        "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "KAFKA_CFG_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CFG_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
        "KAFKA_CFG_NUM_PARTITIONS": "3",
        "ALLOW_PLAINTEXT_LISTENER": "yes",
        "PENSTOCK_DATA": "FOLDER",
    },
}


@pytest.mark.parametrize("image", COMPOSED)
def test_a_broker_obeys_kafka_s_environment_and_stops_on_sigterm(image: str, tmp_path: Path) -> None:
    port = free_port()
    replaced: dict[str, object] = {
        "INSIDE_PORT": (inside := free_port()),
        "CONTROLLER_PORT": free_port(),
        "PORT": port,
        "FOLDER": tmp_path / "data",
    }
    composed = dict(COMPOSED[image])
    for word, value in replaced.items():
        composed = {name: text.replace(word, str(value)) for name, text in composed.items()}
    configured = environment(**composed, KAFKA_PENSTOCK_METRICS_LISTEN=f"127.0.0.1:{free_port()}")
    with subprocess.Popen(["sh", str(ENTRYPOINT)], env=configured, stdout=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stdout is not None
            assert f"127.0.0.1:{port}" in broker.stdout.readline()
            assert answers_api_versions(port)
            if "INSIDE_PORT" in str(COMPOSED[image]):
                assert answers_api_versions(inside)
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


def test_the_image_is_built_with_every_file_that_the_package_needs() -> None:
    package = tomllib.loads((PACKAGING.parent / "pyproject.toml").read_text())
    build = package["tool"]["hatch"]
    wheel = build["build"]["targets"]["wheel"]
    needed = {
        "pyproject.toml",
        package["project"].get("readme", "README.md"),
        *(hook["path"] for hook in build["metadata"]["hooks"].values()),
        build["version"]["path"],
        *wheel["packages"],
        *wheel["force-include"],
    }
    stage = joined().partition("FROM ${BASE}\n")[0]
    copied = [word for line in re.findall(r"^COPY (.*)$", stage, re.MULTILINE) for word in line.split()[:-1]]
    assert [each for each in sorted(needed) if not any(f"{each}/".startswith(f"{path}/") for path in copied)] == []


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which("buildah") is None or os.geteuid() != 0, reason="needs buildah and root")
def test_the_image_is_built_and_serves() -> None:
    done = subprocess.run(["bash", str(PACKAGING / "container" / "try")], capture_output=True, text=True, timeout=880)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
