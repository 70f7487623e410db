"""`penstock acl`: on a data folder that no broker uses."""

from __future__ import annotations

import json

from tests.cli.conftest import Run


def _rules(penstock: Run, *arguments: str) -> list[tuple[str, str, str, str]]:
    listed = penstock("acl", "list", *arguments, "--data", "d", "--json")
    return [
        (rule["principal"], rule["operation"], rule["resourceType"], rule["resourceName"])
        for rule in json.loads(listed.stdout)
    ]


def test_rules_are_added_listed_and_removed(penstock: Run) -> None:
    added = penstock("acl", "add", "billing", "--read", "orders", "--group", "workers", "--data", "d")
    assert added.stdout.splitlines() == [
        "added: User:billing may read topic 'orders'",
        "added: User:billing may read group 'workers'",
    ]
    again = penstock("acl", "add", "billing", "--read", "orders", "--data", "d")
    assert again.stdout == "was there already: User:billing may read topic 'orders'\n"
    penstock("acl", "add", "shop", "--write", "ord", "--prefix", "--data", "d")
    assert _rules(penstock, "billing") == [
        ("User:billing", "READ", "TOPIC", "orders"),
        ("User:billing", "READ", "GROUP", "workers"),
    ]
    assert _rules(penstock, "--topic", "orders") == [
        ("User:shop", "WRITE", "TOPIC", "ord"),
        ("User:billing", "READ", "TOPIC", "orders"),
    ]
    assert "PREFIXED" in penstock("acl", "list", "--data", "d").stdout
    assert penstock("acl", "remove", "billing", "--read", "orders", "--data", "d").returncode == 0
    assert _rules(penstock, "billing") == [("User:billing", "READ", "GROUP", "workers")]
    penstock("acl", "remove", "billing", "--every-rule", "--data", "d")
    assert _rules(penstock) == [("User:shop", "WRITE", "TOPIC", "ord")]


def test_a_rule_that_is_not_there_removes_nothing(penstock: Run) -> None:
    penstock("acl", "add", "billing", "--read", "orders", "--data", "d")
    refused = penstock("acl", "remove", "billing", "--read", "orders", "--read", "bills", "--data", "d")
    assert refused.returncode == 1
    assert "User:billing may read topic 'bills'" in refused.stderr
    assert _rules(penstock) == [("User:billing", "READ", "TOPIC", "orders")]


def test_a_rule_about_nothing_is_refused(penstock: Run) -> None:
    assert "--read TOPIC" in penstock("acl", "add", "billing", "--data", "d").stderr
    assert "--every-rule" in penstock("acl", "remove", "billing", "--data", "d").stderr


def test_explain_names_the_rule_that_decides_and_the_command_that_would_allow_it(penstock: Run) -> None:
    penstock("acl", "add", "billing", "--read", "orders", "--data", "d")
    allowed = penstock("acl", "explain", "billing", "read", "topic", "orders", "--data", "d")
    assert allowed.stdout.splitlines() == [
        "User:billing may read topic 'orders': a rule allows it.",
        "  The rule that decides:  User:billing may read topic 'orders'",
    ]
    assert "Super users are known to a running broker only" in allowed.stderr
    refused = penstock("acl", "explain", "billing", "write", "topic", "orders", "--data", "d")
    assert "may not write topic 'orders'" in refused.stdout
    assert "penstock acl add billing --write orders" in refused.stdout


def test_the_commands_of_an_explanation_make_it_true(penstock: Run) -> None:
    penstock("acl", "add", "*", "--all", "ord", "--prefix", "--deny", "--host", "10.0.0.1", "--data", "d")
    question = ("acl", "explain", "billing", "read", "topic", "orders", "--host", "10.0.0.1", "--data", "d", "--json")
    answer = json.loads(penstock(*question).stdout)
    assert answer["allowed"] is False
    assert answer["rule"]["permission"] == "DENY"
    for line in [*answer["remove"], answer["add"]]:
        words = [word.strip("'") for word in line.split()[1:]]
        assert penstock(*words, "--data", "d").returncode == 0
    assert json.loads(penstock(*question).stdout)["allowed"] is True


def test_a_broker_without_an_authorizer_says_how_to_have_one(penstock: Run) -> None:
    refused = penstock("acl", "list")
    assert refused.returncode == 1
    assert "penstock serve --secure" in refused.stderr
