"""The commands that pages show reach the same cluster as the same user."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from html import unescape
from typing import Any

import pytest

from penstock.console.commands import command
from penstock.console.session import Session
from penstock.testing.broker import Broker
from tests.console.conftest import Visitor


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({}, ""),
        ({"bootstrap_servers": "b:1"}, "--bootstrap b:1"),
        ({"ssl_cafile": "ca.pem", "security_protocol": "SSL"}, "--ca-file ca.pem"),
        (
            {"sasl_username": "ada", "ssl_cafile": "ca.pem", "security_protocol": "SASL_SSL"},
            "--user ada --ca-file ca.pem",
        ),
        (
            {"sasl_username": "ada", "security_protocol": "sasl_plaintext", "sasl_mechanism": "PLAIN"},
            "--user ada --security-protocol SASL_PLAINTEXT --sasl-mechanism PLAIN",
        ),
    ],
)
def test_what_differs_from_the_defaults_is_named(settings: dict[str, Any], options: str) -> None:
    assert command(Session(settings), "topic", "list") == f"penstock topic list {options}".strip()


def test_a_file_of_settings_stands_for_all_that_is_in_it() -> None:
    session = Session({"sasl_mechanism": "OAUTHBEARER", "ssl_cafile": "ca.pem"}, "my client.properties")
    assert command(session, "topic", "list") == "penstock topic list --client-config 'my client.properties'"


def test_a_command_of_a_secured_cluster_runs_as_it_is_shown(login_console: Visitor, secured: Broker) -> None:
    login_console.log_in("root")
    asked = login_console.submit("/topics/orders/partitions", consent=False, partitions=3)
    found = re.search(r'<pre class="command" tabindex="0">([^<]+)</pre>', asked.text)
    assert found is not None
    words = shlex.split(unescape(found[1]))
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli.main", *words[1:]],
        env={**os.environ, "PENSTOCK_PASSWORD": "root"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert login_console.get("/topics/orders.json").json()["total"] == 3
