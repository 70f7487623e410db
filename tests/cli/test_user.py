"""`penstock user`: on a data folder that no broker uses, and on a running broker."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
from pathlib import Path

from penstock.broker.foundation import open_catalog
from penstock.testing import Broker
from tests.cli.conftest import Run, command, environment


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _users(folder: Path) -> set[str]:
    with open_catalog(folder) as catalog:
        return {row.user for row in catalog.credentials()}


def test_a_user_is_added_before_the_first_start_listed_and_removed(penstock: Run, tmp_path: Path) -> None:
    added = penstock("user", "add", "alice", "--data", "d", env={"PENSTOCK_NEW_PASSWORD": "secret"})
    assert (added.returncode, added.stdout) == (0, "added user alice\n")
    assert _users(tmp_path / "d") == {"alice"}
    listed = penstock("user", "list", "--data", "d", "--json")
    assert json.loads(listed.stdout) == [
        {"user": "alice", "mechanisms": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096}}
    ]
    assert penstock("user", "remove", "alice", "--data", "d").returncode == 0
    assert _users(tmp_path / "d") == set()


def test_passwords_are_kept_where_only_the_owner_can_read(penstock: Run, tmp_path: Path) -> None:
    penstock("user", "add", "alice", "--data", "d", env={"PENSTOCK_NEW_PASSWORD": "hush-hush"})
    assert _mode(tmp_path / "d" / "catalog.sqlite") == 0o600
    kept = b"".join(path.read_bytes() for path in (tmp_path / "d").iterdir())
    assert b"hush-hush" not in kept


def test_a_generated_password_is_written_to_a_private_file_unless_a_terminal_shows_it(
    penstock: Run, tmp_path: Path
) -> None:
    added = penstock("user", "add", "a/b", "--data", "d", "--generate")
    assert "d/a%2Fb.password" in added.stdout
    file = tmp_path / "d" / "a%2Fb.password"
    assert _mode(file) == 0o600
    password = file.read_text().strip()
    assert len(password) >= 32
    assert password not in added.stdout + added.stderr
    penstock("user", "password", "a/b", "--data", "d", "--generate")
    assert file.read_text().strip() != password


def test_a_terminal_is_asked_twice_and_shown_what_was_generated(tmp_path: Path) -> None:
    printed = _on_a_terminal(tmp_path, ("user", "add", "alice", "--data", "d"), ["secret", "secret"])
    assert "added user alice" in printed
    assert "secret" not in printed
    printed = _on_a_terminal(tmp_path, ("user", "password", "alice", "--data", "d", "--generate"), [])
    assert "password of alice: " in printed
    assert not list((tmp_path / "d").glob("*.password"))


def test_the_password_comes_from_a_file_or_from_standard_input(penstock: Run, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hush\nsecond line\n")
    assert penstock("user", "add", "a", "--data", "d", "--new-password-file", "secret").returncode == 0
    assert penstock("user", "add", "b", "--data", "d", "--new-password-file", "-", input="hush\n").returncode == 0
    refused = penstock("user", "add", "c", "--data", "d", "--new-password-file", "-", input="\n")
    assert "cannot be empty" in refused.stderr


def test_without_a_terminal_and_a_password_the_ways_to_give_one_are_named(penstock: Run) -> None:
    refused = penstock("user", "add", "alice", "--data", "d")
    assert refused.returncode == 2
    assert all(way in refused.stderr for way in ("--new-password-file", "PENSTOCK_NEW_PASSWORD", "--generate"))


def test_names_that_are_there_or_are_not_are_answered_with_the_command_that_fits(penstock: Run) -> None:
    password = {"PENSTOCK_NEW_PASSWORD": "secret"}
    assert "penstock user add alice" in penstock("user", "password", "alice", "--data", "d", env=password).stderr
    penstock("user", "add", "alice", "--data", "d", env=password)
    again = penstock("user", "add", "alice", "--data", "d", env=password)
    assert again.returncode == 1
    assert "penstock user password alice" in again.stderr
    assert penstock("user", "remove", "bob", "--data", "d").returncode == 1


def test_a_folder_that_a_broker_uses_is_left_alone(penstock: Run, tmp_path: Path) -> None:
    with open_catalog(tmp_path / "d"):
        refused = penstock("user", "list", "--data", "d")
    assert refused.returncode == 1
    assert "A broker runs on d" in refused.stderr
    assert "--bootstrap" in refused.stderr


def test_users_of_a_running_broker_come_change_and_go(penstock: Run, tmp_path: Path) -> None:
    (tmp_path / "admin").write_text("secret\n")
    with Broker(users={"admin": "secret"}, super_users=["admin"]) as broker:
        login = ("--user", "admin", "--password-file", "admin", "--security-protocol", "SASL_PLAINTEXT")
        reached = ("--bootstrap", broker.bootstrap_servers, *login)
        added = penstock("user", "add", "alice", *reached, env={"PENSTOCK_NEW_PASSWORD": "first"})
        assert (added.returncode, added.stderr) == (0, "")
        allowed = penstock("acl", "add", "alice", "--rule", "describe", "topic", "t", *reached)
        assert (allowed.returncode, allowed.stderr) == (0, "")
        broker.create_topic("t")

        def topics(password: str) -> tuple[int, str]:
            options = ("--bootstrap", broker.bootstrap_servers, "--user", "alice")
            listed = penstock(
                *("topic", "list", *options, "--security-protocol", "SASL_PLAINTEXT"),
                env={"PENSTOCK_PASSWORD": password},
            )
            return listed.returncode, listed.stdout

        assert "t" in topics("first")[1].split()
        penstock("user", "password", "alice", *reached, env={"PENSTOCK_NEW_PASSWORD": "second"})
        assert topics("first")[0] == 1
        assert topics("second")[0] == 0
        explained = penstock("acl", "explain", "admin", "alter", "cluster", *reached)
        assert "does not show them" in explained.stderr
        explained = penstock("acl", "explain", "alice", "read", "topic", "t", *reached)
        assert "penstock acl add alice --read t" in explained.stdout
        assert penstock("user", "remove", "alice", *reached).returncode == 0
        assert topics("second")[0] == 1
        assert json.loads(penstock("user", "list", "--json", *reached).stdout)[0]["user"] == "admin"


def _on_a_terminal(folder: Path, arguments: tuple[str, ...], answers: list[str]) -> str:
    """Run a command on a pseudo-terminal, and answer each question that ends in a colon."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command(arguments), stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=environment()
    )
    os.close(theirs)
    printed = ""
    try:
        while True:
            try:
                chunk = os.read(ours, 4096).decode()
            except OSError:  # the other side is closed
                break
            printed += chunk
            if answers and chunk.rstrip(" ").endswith(":"):
                os.write(ours, answers.pop(0).encode() + b"\n")
    finally:
        os.close(ours)
        assert process.wait(30) == 0
    return printed
