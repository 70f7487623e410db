"""`penstock serve`: one line when it is ready, a clear word about settings that are wrong, a clean stop."""

from __future__ import annotations

import base64
import os
import pty
import re
import signal
import socket
import ssl
import subprocess
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from penstock.cli.secure import set_up
from penstock.client.admin import ResourceType
from penstock.client.sync import Admin
from tests.broker.process import free_port
from tests.catalog.postgres_catalogs import open_shared
from tests.cli.conftest import Run, command, environment
from tests.postgres import PostgresServer


def _serve(folder: Path, *arguments: str, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(arguments),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**env),
    )


def _stopped(broker: subprocess.Popen[str]) -> tuple[int, str]:
    broker.send_signal(signal.SIGINT)
    _, complaints = broker.communicate(timeout=30)
    return broker.returncode, complaints


def test_serve_says_one_line_and_stops_at_ctrl_c(penstock: Run, tmp_path: Path) -> None:
    broker = _serve(tmp_path, "serve", "--data", "here", "--listen", "127.0.0.1:0", "-c", "node.id=7")
    assert broker.stdout is not None
    line = broker.stdout.readline()
    assert "from here" in line
    assert "ready in" in line
    address = next(word for word in line.split() if word.startswith("127.0.0.1:"))
    assert penstock("topic", "create", "t", env={"PENSTOCK_BOOTSTRAP": address}).returncode == 0
    assert (tmp_path / "here").is_dir()
    code, complaints = _stopped(broker)
    assert (code, complaints) == (0, "")


def test_penstock_alone_serves_with_defaults_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text(
        '[serve]\nlisten = ["127.0.0.1:0"]\n[serve.set]\n"num.partitions" = 3\n"auto.create.topics.enable" = true\n'
    )
    broker = _serve(tmp_path)
    assert broker.stdout is not None
    assert "from penstock-data" in broker.stdout.readline()
    assert _stopped(broker)[0] == 0


def test_how_many_brokers_there_are_comes_from_the_file_or_the_environment(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text('[serve]\nlisten = ["127.0.0.1:0"]\nbrokers = 2\n')
    for expected, variables in (("2 brokers", {}), ("3 brokers", {"PENSTOCK_BROKERS": "3"})):
        broker = _serve(tmp_path, **variables)
        assert broker.stdout is not None
        assert f"from penstock-data with {expected}" in broker.stdout.readline()
        assert _stopped(broker) == (0, "")


def test_kafkas_configs_say_where_to_listen_and_where_to_keep_the_data(tmp_path: Path) -> None:
    broker = _serve(tmp_path, "serve", "-c", "listeners=PLAINTEXT://127.0.0.1:0", "-c", "log.dirs=there")
    assert broker.stdout is not None
    line = broker.stdout.readline()
    assert "serves 127.0.0.1:" in line
    assert "127.0.0.1:9092" not in line
    assert "from there" in line
    assert _stopped(broker)[0] == 0


def test_options_count_before_kafkas_configs(tmp_path: Path) -> None:
    options = ("--data", "here", "--listen", "127.0.0.1:0")
    broker = _serve(tmp_path, "serve", *options, "-c", "listeners=PLAINTEXT://127.0.0.1:1", "-c", "log.dir=there")
    assert broker.stdout is not None
    assert "from here" in broker.stdout.readline()
    assert _stopped(broker)[0] == 0


def test_several_folders_are_refused(tmp_path: Path) -> None:
    broker = _serve(tmp_path, "serve", "-c", "log.dirs=here,there")
    _, complaints = broker.communicate(timeout=30)
    assert broker.returncode != 0
    assert "Cannot accept log.dirs=here,there: Penstock keeps everything in one folder." in complaints
    assert list(tmp_path.iterdir()) == []


def test_a_catalog_that_cannot_be_used_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "catalog.sqlite").write_text("this is no database" * 100)
    broker = _serve(tmp_path, "serve", "--data", "here", "--listen", "127.0.0.1:0")
    _, complaints = broker.communicate(timeout=30)
    assert broker.returncode != 0
    assert complaints.splitlines() == ["Error: Cannot use the catalog here/catalog.sqlite: file is not a database"]


def test_a_mistyped_config_is_reported_with_the_name_that_was_meant(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text('[serve.set]\n"num.partition" = 3\n')
    broker = _serve(tmp_path, "serve", "--listen", "127.0.0.1:0", "-c", "log.retention.hour=24", "-c", "acme.mode=x")
    assert broker.stdout is not None
    assert "serves 127.0.0.1:" in broker.stdout.readline()
    code, complaints = _stopped(broker)
    assert code == 0
    assert complaints.splitlines() == [
        "warning: acme.mode is not a config of Penstock or Kafka",
        "warning: log.retention.hour is not a config of Penstock or Kafka; did you mean log.retention.hours?",
        "warning: num.partition is not a config of Penstock or Kafka; did you mean num.partitions?",
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--listen", "SSL://127.0.0.1:0"),
        ("-c", "listeners=SASL_SSL://127.0.0.1:0"),
        ("--listen", "127.0.0.1:0", "-c", "authorizer.class.name=com.example.Authorizer"),
    ],
)
def test_a_broker_that_would_not_keep_a_promise_of_safety_does_not_start(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    broker = _serve(tmp_path, "serve", *arguments)
    printed, complaints = broker.communicate(timeout=30)
    assert (broker.returncode, printed) == (1, "")
    assert "Cannot accept" in complaints or "ssl.keystore" in complaints
    assert "Traceback" not in complaints


@pytest.mark.parametrize("arguments", [("--listen", "0.0.0.0:0"), ("-c", "listeners=:0")])
def test_a_broker_is_not_opened_to_a_network_by_accident(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    broker = _serve(tmp_path, "serve", *arguments)
    printed, complaints = broker.communicate(timeout=30)
    assert (broker.returncode, printed) == (1, "")
    assert "can be reached from other machines" in complaints
    assert "penstock serve --secure" in complaints
    assert "penstock user add NAME --data penstock-data" in complaints


@pytest.mark.parametrize(
    "arguments",
    [
        ("--listen", "PLAINTEXT://0.0.0.0:0"),
        ("-c", "listeners=PLAINTEXT://:0"),
        ("--listen", "0.0.0.0:0", "--insecure"),
    ],
)
def test_it_is_opened_on_purpose_with_a_warning(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    broker = _serve(tmp_path, "serve", *arguments)
    assert broker.stdout is not None
    assert "serves" in broker.stdout.readline()
    code, complaints = _stopped(broker)
    assert code == 0
    assert "warning:" in complaints
    assert "everybody who can reach it can connect without a login" in complaints


def _ready(broker: subprocess.Popen[str]) -> list[str]:
    """What a broker prints until it serves; the last line says where."""
    assert broker.stdout is not None
    lines = [broker.stdout.readline()]
    while "serves" not in lines[-1]:
        assert lines[-1], broker.communicate(timeout=30)[1]
        lines.append(broker.stdout.readline())
    return lines


def _address(lines: list[str]) -> str:
    return next(word for word in lines[-1].split() if word.startswith("127.0.0.1:"))


def test_a_secure_broker_shows_its_metrics_to_those_who_log_in(tmp_path: Path) -> None:
    port = free_port()
    monitoring = f"penstock.metrics.listen=0.0.0.0:{port}"
    broker = _serve(tmp_path, "serve", "--secure", "--data", "d", "--listen", "127.0.0.1:0", "-c", monitoring)
    _ready(broker)
    trust = ssl.create_default_context(cafile=str(tmp_path / "d" / "tls" / "ca.pem"))

    def status(path: str, user: str = "") -> int:
        request = Request(f"https://127.0.0.1:{port}{path}")
        if user:
            login = f"{user}:{(tmp_path / 'd' / 'admin.password').read_text().strip()}"
            request.add_header("Authorization", f"Basic {base64.b64encode(login.encode()).decode()}")
        try:
            with urlopen(request, context=trust, timeout=30) as answer:
                return int(answer.status)
        except HTTPError as refused:
            return refused.code

    assert status("/health") == 200
    assert status("/metrics") == 401
    assert status("/metrics", "admin") == 200
    assert _stopped(broker)[0] == 0


def test_monitoring_is_not_opened_to_a_network_without_a_login(tmp_path: Path) -> None:
    broker = _serve(tmp_path, "serve", "--listen", "127.0.0.1:0", "-c", "penstock.metrics.listen=0.0.0.0:0")
    printed, complaints = broker.communicate(timeout=30)
    assert (broker.returncode, printed) == (1, "")
    assert "needs a login over TLS" in complaints
    assert "penstock user add NAME --data penstock-data" in complaints


def test_a_secure_broker_says_what_clients_need_and_knows_its_administrator_again(
    penstock: Run, tmp_path: Path
) -> None:
    for start in ("first", "again"):
        broker = _serve(tmp_path, "serve", "--secure", "--data", "d", "--listen", "127.0.0.1:0")
        lines = _ready(broker)
        said = "".join(lines)
        assert ("created user admin" in said) == (start == "first")
        assert f"ssl.ca.location={tmp_path / 'd' / 'tls' / 'ca.pem'}" in said
        password = (tmp_path / "d" / "admin.password").read_text().strip()
        assert password not in said
        reached = ("--bootstrap", _address(lines), "--ca-file", "d/tls/ca.pem")
        secret = {"PENSTOCK_PASSWORD": password}
        created = penstock("topic", "create", start, *reached, "--user", "admin", env=secret)
        assert (created.returncode, created.stderr) == (0, f"Created topic {start}.\n")
        assert penstock("topic", "list", *reached, "--security-protocol", "SSL").returncode == 1
        assert _stopped(broker)[0] == 0


def test_a_terminal_is_shown_the_administrators_password(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    arguments = ("serve", "--secure", "--data", "d", "--listen", "127.0.0.1:0")
    broker = subprocess.Popen(
        command(arguments), stdin=theirs, stdout=theirs, stderr=theirs, cwd=tmp_path, env=environment()
    )
    os.close(theirs)
    try:
        printed = ""
        while "serves" not in printed:
            printed += os.read(ours, 4096).decode()
        broker.send_signal(signal.SIGINT)
        assert broker.wait(30) == 0
    finally:
        os.close(ours)
    assert re.search(r"password of admin: \S{32}\r\n", printed)
    assert not (tmp_path / "d" / "admin.password").exists()


def test_a_lost_password_is_reset_on_the_folder(penstock: Run, tmp_path: Path) -> None:
    set_up(tmp_path / "d", [], {})
    penstock("user", "password", "admin", "--data", "d", env={"PENSTOCK_NEW_PASSWORD": "known again"})
    broker = _serve(tmp_path, "serve", "--secure", "--data", "d", "--listen", "127.0.0.1:0")
    options = ("--bootstrap", _address(_ready(broker)), "--ca-file", "d/tls/ca.pem", "--user", "admin")
    assert penstock("user", "list", *options, env={"PENSTOCK_PASSWORD": "known again"}).returncode == 0
    assert _stopped(broker)[0] == 0


def test_commands_log_in_to_the_monitoring_endpoint_too(
    penstock: Run, tmp_path: Path, postgres: PostgresServer
) -> None:
    (tmp_path / "admin").write_text("known")
    set_up(tmp_path / "d", [], {})
    penstock("user", "password", "admin", "--data", "d", env={"PENSTOCK_NEW_PASSWORD": "known"})
    monitoring = f"penstock.metrics.listen=0.0.0.0:{free_port()}"
    broker = _serve(tmp_path, "serve", "--secure", "--data", "d", "--listen", "127.0.0.1:0", "-c", monitoring)
    trust = ("--bootstrap", _address(_ready(broker)), "--ca-file", "d/tls/ca.pem")
    address = f"localhost:{monitoring.rpartition(':')[2]}"
    shown = penstock("cleaner", *trust, "--user", "admin", "--password-file", "admin")
    assert "No topic is compacted" in shown.stdout, shown.stderr
    refused = penstock("cleaner", *trust, "--security-protocol", "SSL", "--monitoring", f"https://{address}")
    assert "log in with --user NAME" in refused.stderr
    schema = "watched_from_elsewhere"
    open_shared(postgres, schema, store=f"file://{tmp_path}/store").close()
    status = ("cluster", "status", "--cluster", postgres.url(schema), "--metrics", f"https://{address}")
    anonymous = penstock(*status, *trust[2:])
    assert "log in with --user NAME" in anonymous.stderr
    shown = penstock(*status, *trust[2:], "--user", "admin", "--password-file", "admin")
    assert re.search(rf"^https://{address} +0 B ", shown.stdout, re.MULTILINE), shown.stderr
    assert _stopped(broker)[0] == 0


SECRET = "hush-hush"


@pytest.mark.parametrize("name", ["ssl.key.password", "listener.name.sasl_ssl.plain.sasl.jaas.config"])
def test_a_secret_on_the_command_line_is_refused_and_not_repeated(tmp_path: Path, name: str) -> None:
    broker = _serve(tmp_path, "serve", "--listen", "127.0.0.1:0", "-c", f"{name}={SECRET}")
    printed, complaints = broker.communicate(timeout=30)
    assert (broker.returncode, printed) == (1, "")
    assert "--properties FILE" in complaints
    assert "config.providers" in complaints
    assert SECRET not in complaints


def test_who_may_do_everything_is_no_secret(tmp_path: Path) -> None:
    authorizer = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    broker = _serve(tmp_path, "serve", "--listen", "127.0.0.1:0", "-c", authorizer, "-c", "super.users=User:ANONYMOUS")
    assert broker.stdout is not None
    assert "serves" in broker.stdout.readline()
    assert _stopped(broker)[0] == 0


def test_configs_come_from_four_places_the_nearest_first(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text("node.id=4\nnum.partitions=4\nlog.dirs=four\n")
    (tmp_path / "penstock.toml").write_text('[serve.set]\n"node.id" = 3\n"num.partitions" = 3\n')
    broker = _serve(
        tmp_path,
        *("serve", "--listen", "127.0.0.1:0", "--properties", "server.properties", "-c", "node.id=1"),
        KAFKA_NODE_ID="2",
        KAFKA_NUM_PARTITIONS="2",
    )
    assert broker.stdout is not None
    line = broker.stdout.readline()
    assert "from four" in line
    address = next(word for word in line.split() if word.startswith("127.0.0.1:"))
    with Admin(bootstrap_servers=address) as admin:
        found = admin.describe_configs(ResourceType.BROKER, "1", ["num.partitions"])
    assert found["num.partitions"].value == "2"
    assert _stopped(broker)[0] == 0


def test_a_value_that_cannot_be_resolved_stops_the_start(tmp_path: Path) -> None:
    provider = "config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    arguments = ("-c", "config.providers=env", "-c", provider, "-c", "num.partitions=${env:HOW_MANY}")
    broker = _serve(tmp_path, "serve", "--listen", "127.0.0.1:0", *arguments)
    _, complaints = broker.communicate(timeout=30)
    assert broker.returncode == 1
    assert "the environment has no variable 'HOW_MANY'" in complaints
    broker = _serve(tmp_path, "serve", "--listen", "127.0.0.1:0", *arguments, HOW_MANY="3")
    assert broker.stdout is not None
    assert "serves" in broker.stdout.readline()
    assert _stopped(broker) == (0, "")


def test_a_port_that_is_taken_is_said_so(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        broker = _serve(tmp_path, "serve", "--listen", f"127.0.0.1:{port}")
        _, complaints = broker.communicate(timeout=30)
    assert broker.returncode == 1
    assert str(port) in complaints
    assert "Traceback" not in complaints


@pytest.mark.parametrize(
    "arguments", [("-c", "num.partitions=many"), ("-c", "nonsense"), ("--listen", "somewhere"), ("--no-such-option",)]
)
def test_wrong_settings_are_refused(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    broker = _serve(tmp_path, "serve", *arguments)
    _, complaints = broker.communicate(timeout=30)
    assert broker.returncode in (1, 2)
    assert "Error:" in complaints
    assert "Traceback" not in complaints


def test_a_password_in_the_address_of_a_cluster_is_refused_on_the_command_line(penstock: Run) -> None:
    for url in ("postgresql://u:hunter2@127.0.0.1:1/p", "postgresql://u@127.0.0.1:1/p?password=hunter2"):
        failed = penstock("serve", "--cluster", url)
        assert failed.returncode == 1
        assert "PGPASSFILE" in failed.stderr
        assert "hunter2" not in failed.stderr


def test_a_password_in_the_address_of_a_cluster_may_come_from_the_environment_and_is_not_shown(penstock: Run) -> None:
    failed = penstock("serve", env={"PENSTOCK_CLUSTER": f"postgresql://u:hunter2@127.0.0.1:{free_port()}/p"})
    assert failed.returncode == 1
    assert "Cannot reach PostgreSQL at postgresql://u:***@127.0.0.1" in failed.stderr.replace("\n", " ")
    assert "hunter2" not in failed.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--cluster", "localhost:5432"], "not the address of a PostgreSQL database"),
        (["--cluster", "postgresql:///p?schema=public"], "not for a cluster alone"),
        (["--cluster", "postgresql:///p", "--secure"], "penstock user add"),
    ],
)
def test_an_address_of_a_cluster_that_cannot_be_served_is_refused(
    penstock: Run, arguments: list[str], complaint: str
) -> None:
    failed = penstock("serve", *arguments)
    assert failed.returncode in (1, 2)
    assert complaint in failed.stderr.replace("\n", " ")


@pytest.mark.parametrize("extra", [(), ("--brokers", "2"), ("--secure",)])
def test_a_data_folder_that_cannot_be_created_is_refused(extra: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    broker = _serve(tmp_path, "serve", "--data", "file/data", "--listen", "127.0.0.1:0", *extra)
    _, complaints = broker.communicate(timeout=30)
    assert broker.returncode == 1
    assert complaints.startswith("Error: Cannot create the data folder file/data: Not a directory")
    assert "--data" in complaints
    assert "Traceback" not in complaints
