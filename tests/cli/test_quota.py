"""`penstock quota`: setting, listing and removing quotas in a person's words."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Run


def listed(penstock: Run, *arguments: str) -> dict[str, dict[str, float]]:
    result = penstock("quota", "list", *arguments, "--json")
    assert result.returncode == 0, result.stderr
    return {json.dumps(each["entity"], sort_keys=True): each["quotas"] for each in json.loads(result.stdout)}


def test_quotas_of_a_user_are_set_listed_and_removed(penstock: Run) -> None:
    done = penstock("quota", "set", "q-alice", "--produce", "10MB/s", "--fetch", "512KiB/s", "--requests", "50%")
    assert done.returncode == 0, done.stderr
    assert "user q-alice may produce 10MB/s from now on." in done.stderr + done.stdout
    assert listed(penstock, "q-alice") == {
        '{"user": "q-alice"}': {
            "producer_byte_rate": 10e6,
            "consumer_byte_rate": 512 * 1024,
            "request_percentage": 50,
        }
    }
    table = penstock("quota", "list", "q-alice").stdout
    assert table.split() == ["WHO", "PRODUCE", "FETCH", "REQUESTS", "user", "q-alice", "10MB/s", "524.288KB/s", "50%"]
    assert penstock("quota", "remove", "q-alice", "--requests").returncode == 0
    assert "request_percentage" not in listed(penstock, "q-alice")['{"user": "q-alice"}']
    assert penstock("quota", "remove", "q-alice").returncode == 0
    assert listed(penstock, "q-alice") == {}


def test_client_ids_of_users_and_defaults_and_addresses_have_quotas(penstock: Run) -> None:
    for arguments in (
        ("q-bob", "--client-id", "app", "--mutations", "0.5/s"),
        ("q-bob", "--default-client-id", "--fetch", "1000"),
        ("--ip", "10.9.8.7", "--connections", "10/s"),
    ):
        done = penstock("quota", "set", *arguments)
        assert done.returncode == 0, done.stderr
    assert listed(penstock, "q-bob") == {
        '{"client-id": "app", "user": "q-bob"}': {"controller_mutation_rate": 0.5},
        '{"client-id": null, "user": "q-bob"}': {"consumer_byte_rate": 1000},
    }
    assert listed(penstock, "--ip", "10.9.8.7") == {'{"ip": "10.9.8.7"}': {"connection_creation_rate": 10}}
    for entity in (("q-bob", "--client-id", "app"), ("q-bob", "--default-client-id"), ("--ip", "10.9.8.7")):
        assert penstock("quota", "remove", *entity).returncode == 0
    assert listed(penstock, "q-bob") == {}


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (("set", "--produce", "1MB/s"), "Say whose quota it is"),
        (("set", "alice"), "Say what to limit"),
        (("set", "alice", "--produce", "fast"), "Write for example 10MB/s"),
        (("set", "alice", "--produce", "0"), "Write for example 10MB/s"),
        (("set", "alice", "--requests", "half"), "Write for example 50%"),
        (("set", "--ip", "10.0.0.1", "--connections", "0.5/s"), "whole number"),
        (("set", "alice", "--connections", "5/s"), "--ip ADDRESS"),
        (("set", "--ip", "10.0.0.1", "--produce", "5"), "only --connections"),
        (("set", "alice", "--default-user", "--produce", "5"), "not both"),
        (("set", "alice", "--ip", "10.0.0.1", "--connections", "5"), "leave out the others"),
    ],
)
def test_a_wrong_command_line_is_answered_with_what_to_write(
    penstock: Run, arguments: tuple[str, ...], advice: str
) -> None:
    result = penstock("quota", *arguments)
    assert result.returncode == 2
    assert advice in " ".join(result.stderr.split())


def test_removing_what_is_not_set_says_where_to_look(penstock: Run) -> None:
    result = penstock("quota", "remove", "q-nobody")
    assert result.returncode == 1
    assert "penstock quota list" in result.stderr


def test_what_the_broker_refuses_is_told(penstock: Run) -> None:
    result = penstock("quota", "set", "--ip", "nowhere.invalid", "--connections", "5")
    assert result.returncode == 1
    assert "is not a valid IP" in result.stderr
