"""How a command's options become the settings of a client."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from penstock.cli.connecting import connection_settings, login_settings
from penstock.cli.main import cli
from penstock.cli.options import Command, bootstrap_option
from penstock.testing.broker import Broker
from tests.cli.conftest import Run, command, environment


@click.command(cls=Command)
@click.argument("user", required=False)
@bootstrap_option
def probe(user: str | None, bootstrap: str) -> None:
    for name, value in sorted(connection_settings(bootstrap).items()):
        click.echo(f"{name}={value}")


def run(*arguments: str, env: dict[str, str] | None = None, config: dict[str, object] | None = None) -> Result:
    variables = {"PENSTOCK_PASSWORD": "", **(env or {})}
    with cli.make_context("penstock", ["topic"]) as parent:
        parent.obj = config or {}
        return CliRunner().invoke(probe, list(arguments), env=variables, parent=parent)


def settings(result: Result) -> dict[str, str]:
    assert result.exit_code == 0, result.output
    return dict(line.split("=", 1) for line in result.output.splitlines())


@pytest.fixture
def password_file(tmp_path: Path) -> str:
    path = tmp_path / "password"
    path.write_text("hunter2\r\nnot this\n")
    return str(path)


def test_nothing_is_set_without_options() -> None:
    assert settings(run("somebody")) == {"bootstrap_servers": "127.0.0.1:9092"}


def test_a_user_logs_in_over_tls_with_scram(password_file: str) -> None:
    assert settings(run("--user", "billing", "--password-file", password_file)) == {
        "bootstrap_servers": "127.0.0.1:9092",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "billing",
        "sasl_password": "hunter2",
    }


def test_another_protocol_and_mechanism_have_to_be_named() -> None:
    named = ("--user", "billing", "--security-protocol", "sasl_plaintext", "--sasl-mechanism", "plain")
    found = settings(run(*named, env={"PENSTOCK_PASSWORD": "hunter2"}))
    assert (found["security_protocol"], found["sasl_mechanism"]) == ("SASL_PLAINTEXT", "PLAIN")
    assert found["sasl_password"] == "hunter2"


def test_an_authority_alone_turns_tls_on(password_file: str) -> None:
    assert settings(run("--ca-file", password_file))["ssl_cafile"] == password_file


def test_user_and_authority_may_be_in_the_config_file_and_the_environment(password_file: str) -> None:
    config: dict[str, object] = {"user": "billing", "password-file": password_file}
    assert settings(run(config=config))["sasl_username"] == "billing"
    assert settings(run(config=config, env={"PENSTOCK_USER": "admin"}))["sasl_username"] == "admin"


def test_a_properties_file_of_kafkas_tools_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="a" password="b";'
    file.write_text(
        "bootstrap.servers=broker:9093\nsecurity.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        f"sasl.jaas.config={jaas}\nssl.truststore.location=/ca.pem\n"
    )
    found = settings(run("--client-config", str(file)))
    assert found["bootstrap_servers"] == "broker:9093"
    assert found["sasl_jaas_config"] == jaas
    assert found["ssl_cafile"] == "/ca.pem"
    assert settings(run("--client-config", str(file), "--bootstrap", "other:1"))["bootstrap_servers"] == "other:1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--sasl-mechanism", "PLAIN"), "authenticates nobody"),
        (("--user", "a", "--security-protocol", "SSL"), "authenticates nobody"),
        (("--password-file", "FILE"), "name the user with --user"),
        (("--client-config", "FILE"), "there is no setting 'hunter2'"),
        (("--password", "hunter2"), "No such option"),
    ],
)
def test_what_does_not_fit_together_is_refused(arguments: tuple[str, ...], message: str, password_file: str) -> None:
    given = [password_file if argument == "FILE" else argument for argument in arguments]
    result = run(*given, env={"PENSTOCK_PASSWORD": "x"})
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_a_password_is_asked_for_on_the_terminal_even_if_records_come_from_standard_input(tmp_path: Path) -> None:
    """The broker does not exist: what matters is that the prompt comes first, and what it looks like."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        done = subprocess.run(
            command(("produce", "t", "--user", "billing", "--bootstrap", "127.0.0.1:1")),
            stdin=subprocess.DEVNULL,
            env=environment(PYTHONPATH=os.environ.get("PYTHONPATH", "")),
            stdout=subprocess.DEVNULL,
        )
        os._exit(done.returncode)
    seen = b""
    while b"Password of billing: " not in seen:
        seen += os.read(terminal, 1000)
    os.write(terminal, b"hunter2\n")
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 1
    assert b"hunter2" not in seen


def test_without_a_terminal_the_ways_to_give_a_password_are_told(tmp_path: Path) -> None:
    done = subprocess.run(
        command(("topic", "list", "--user", "billing")),
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "use --password-file FILE or PENSTOCK_PASSWORD" in " ".join(done.stderr.split())


def test_the_connection_has_a_section_of_its_own_in_the_help(penstock: Run) -> None:
    shown = penstock("topic", "list", "--help").stdout
    options, _, connection = shown.partition("Connection:")
    assert "--user" not in options
    assert all(name in connection for name in ("--bootstrap", "--user", "--password-file", "--client-config"))


def test_a_user_works_over_tls_and_a_wrong_password_is_told(penstock: Run, tmp_path: Path) -> None:
    with Broker(sasl="SCRAM-SHA-512", tls=True, users={"billing": "hunter2"}) as broker:
        reach = ("--bootstrap", broker.bootstrap_servers, "--ca-file", broker.ca_file)
        login = ("--user", "billing")
        password = {"PENSTOCK_PASSWORD": "hunter2"}
        made = penstock("topic", "create", "orders", *reach, *login, env=password)
        assert made.returncode == 0, made.stderr
        assert penstock("produce", "orders", "one", *reach, *login, env=password).returncode == 0
        read = penstock("consume", "orders", "--exit-at-end", *reach, *login, env=password)
        assert read.stdout == "one\n"
        wrong = penstock("topic", "list", *reach, *login, env={"PENSTOCK_PASSWORD": "guessed"})
        assert wrong.returncode == 1
        assert "refuses user 'billing'" in wrong.stderr
        assert "guessed" not in wrong.stderr
        nobody = penstock("topic", "list", *reach)
        assert "--user NAME" in nobody.stderr
        stranger = penstock("topic", "list", *reach[:2], *login, env=password)
        assert "--ca-file FILE" in stranger.stderr


@click.command(cls=Command)
@click.option("--login", is_flag=True)
@bootstrap_option
def asking(login: bool, bootstrap: str) -> None:
    for name, value in sorted(login_settings(bootstrap, required=login).items()):
        click.echo(f"{name}={value}")


def ask(*arguments: str) -> Result:
    with cli.make_context("penstock", ["topic"]) as parent:
        parent.obj = {}
        return CliRunner().invoke(asking, list(arguments), env={"PENSTOCK_PASSWORD": "x"}, parent=parent)


def test_a_program_that_asks_people_for_users_needs_none_of_its_own() -> None:
    expected = {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512", "bootstrap_servers": "b:1"}
    assert settings(ask("--login", "--bootstrap", "b:1")) == expected
    assert settings(ask("--security-protocol", "SASL_SSL", "--bootstrap", "b:1")) == expected
    assert settings(ask("--bootstrap", "b:1")) == {"bootstrap_servers": "b:1"}


@pytest.mark.parametrize(
    "options", [["--user", "alice"], ["--sasl-mechanism", "OAUTHBEARER"], ["--security-protocol", "SSL"]]
)
def test_asking_people_for_users_does_not_go_with_what_has_or_needs_no_password(options: list[str]) -> None:
    assert ask("--login", *options).exit_code == 2
