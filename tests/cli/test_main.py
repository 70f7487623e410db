from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.docs import pages
from penstock.cli.main import COMMANDS
from tests.cli.conftest import Run, command, environment


def test_help_lists_every_command_without_importing_any(penstock: Run) -> None:
    shown = penstock("--help").stdout
    assert all(name in shown for name in COMMANDS)
    check = "import sys, penstock.cli.main as m; m.run(['--help']); print([n for n in sys.modules if 'penstock' in n])"
    ran = subprocess.run([command(())[0], "-c", check], capture_output=True, text=True, env=environment(), check=True)
    loaded = ran.stdout.splitlines()[-1]
    assert "penstock.client" not in loaded
    assert "penstock.broker" not in loaded


def test_a_misspelt_command_is_answered_with_the_nearest_one(penstock: Run) -> None:
    wrong = penstock("tpic")
    assert wrong.returncode == 2
    assert "Did you mean: penstock topic" in wrong.stderr
    assert "See: penstock topic --help" in penstock("topic", "xyzzy").stderr


def test_no_broker_says_how_to_start_one(penstock: Run) -> None:
    for arguments in (("topic", "list"), ("produce", "t", "v"), ("consume", "t")):
        failed = penstock(*arguments, "--bootstrap", "127.0.0.1:1")
        assert failed.returncode == 1
        assert "penstock serve" in failed.stderr
        assert "Traceback" not in failed.stderr


def test_an_option_comes_from_the_command_line_the_environment_or_the_file(penstock: Run, tmp_path: Path) -> None:
    nowhere = {"PENSTOCK_BOOTSTRAP": ""}
    (tmp_path / "penstock.toml").write_text('bootstrap = "127.0.0.1:2"\n[topic.list]\nbootstrap = "127.0.0.1:3"\n')
    assert "127.0.0.1:3" in penstock("topic", "list", env=nowhere).stderr
    assert "127.0.0.1:2" in penstock("topic", "delete", "t", env=nowhere).stderr
    assert "127.0.0.1:4" in penstock("topic", "list", env={"PENSTOCK_BOOTSTRAP": "127.0.0.1:4"}).stderr
    one_only = {"PENSTOCK_TOPIC_LIST_BOOTSTRAP": "127.0.0.1:5"}
    assert "127.0.0.1:5" in penstock("topic", "list", env=one_only).stderr
    assert "127.0.0.1:6" in penstock("topic", "list", "--bootstrap", "127.0.0.1:6", env=one_only).stderr


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("[topic.list]\nbotstrap = 'x'\n", "did you mean 'bootstrap'"), ("not toml", "not a TOML file")],
)
def test_a_wrong_config_file_is_refused(penstock: Run, tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "other.toml").write_text(text)
    failed = penstock("--config", "other.toml", "topic", "list")
    assert failed.returncode == 2
    assert complaint in failed.stderr


def test_the_documentation_is_what_help_says() -> None:
    written = Path(__file__).parents[2] / "docs" / "cli.md"
    assert written.read_text() == pages(), "run python -m penstock.cli.docs"


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
        ("-c", "ssl.client.auth=required"),
        ("-c", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
    ],
)
def test_a_broker_that_would_not_keep_a_promise_of_safety_does_not_start(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    broker = _serve(tmp_path, "serve", *arguments)
    printed, complaints = broker.communicate(timeout=30)
    assert (broker.returncode, printed) == (1, "")
    assert "Cannot accept" in complaints
    assert "Traceback" not in complaints


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


def test_a_command_on_spark_without_spark_says_what_to_install() -> None:
    # None in sys.modules is a package that cannot be found, though it may well be installed.
    program = (
        "import sys; sys.modules['pyspark'] = None; from penstock.cli.main import run; "
        "sys.exit(run(['load', 'orders', '--to', 'lake']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "pip install 'penstock[spark]'" in done.stderr
    assert "Traceback" not in done.stderr
