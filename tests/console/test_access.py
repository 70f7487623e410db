"""The pages of users, ACLs and quotas, against a real broker with an authorizer."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import pytest

from penstock.client.admin import Admin, ClientQuotaEntity
from penstock.testing.broker import Broker
from tests.console.conftest import Visitor, run


@pytest.fixture
def root(login_console: Visitor) -> Visitor:
    login_console.log_in("root")
    return login_console


@pytest.fixture
def as_root(secured: Broker) -> Callable[[Callable[[Admin], Any]], Any]:
    def call(work: Callable[[Admin], Any]) -> Any:
        async def main() -> Any:
            async with Admin(secured.client_settings("root")) as admin:
                return await work(admin)

        return run(main())

    return call


def test_users_rules_and_quotas_are_listed(root: Visitor) -> None:
    shown = root.get("/access.json").json()
    assert {"alice", "nobody", "root"} <= {row["user"] for row in shown["users"]}
    sentences = {row["sentence"] for row in shown["rules"]}
    assert "User:alice may do everything with topic 'orders'" in sentences
    assert shown["reasons"] == {}


def test_a_rule_is_added_with_its_command_counts_and_is_removed(root: Visitor) -> None:
    fields: dict[str, Any] = {
        "user": "nobody",
        "operation": "read",
        "type": "topic",
        "name": "orders.",
        "pattern": "prefix",
    }
    asked = root.submit("/access/rules/add", consent=False, **fields)
    assert "penstock acl add nobody --read orders. --prefix" in html.unescape(asked.text)
    may = "/access/users/nobody.json?operation=read&type=topic&name=orders.eu"
    assert not root.get(may).json()["answer"]["allowed"]
    root.submit("/access/rules/add", **fields)
    answer = root.get(may).json()["answer"]
    assert (answer["allowed"], answer["reason"]) == (True, "a rule allows it")
    assert ["READ", "DESCRIBE"] in [right["operations"] for right in root.get(may).json()["rights"]]
    (rule,) = [row for row in root.get("/access.json").json()["rules"] if row["resourceName"] == "orders."]
    asked = root.submit("/access/rules/remove", consent=False, rule=rule["id"])
    assert "penstock acl remove nobody --read orders. --prefix" in html.unescape(asked.text)
    root.submit("/access/rules/remove", rule=rule["id"])
    assert not root.get(may).json()["answer"]["allowed"]
    assert root.submit("/access/rules/remove", rule=rule["id"]).status_code == 404


def test_what_a_user_may_not_do_is_explained_with_the_command_that_allows_it(root: Visitor) -> None:
    shown = root.get("/access/users/alice.json?operation=write&type=topic&name=secrets").json()
    assert not shown["answer"]["allowed"]
    assert shown["answer"]["add"].startswith("penstock acl add alice --write secrets")
    assert "a super user may do everything" in shown["unknown"]
    assert root.get("/access/users/alice?operation=fly&type=topic&name=x").status_code == 400


def test_a_user_is_added_logs_in_gets_another_password_and_is_removed(root: Visitor) -> None:
    asked = root.submit("/access/users/password", consent=False, user="dave", password="never shown")
    assert "Add user dave?" in asked.text
    assert "never shown" not in asked.text
    assert re.search(r'<input type="password" name="password"', asked.text)
    assert root.submit("/access/users/password", user="dave", secret="").status_code == 400
    root.submit("/access/users/password", user="dave", secret="first")
    assert root.log_in("dave", "first").status_code == 303
    root.log_in("root")
    assert "The password of dave is changed" in root.submit("/access/users/password", user="dave", secret="2").text
    assert root.log_in("dave", "2").status_code == 303
    root.log_in("root")
    assert "User dave is removed" in root.submit("/access/users/remove", user="dave").text
    assert root.log_in("dave", "2").status_code == 401
    root.log_in("root")
    assert root.submit("/access/users/remove", user="dave").status_code == 404


def test_a_quota_is_set_and_removed(root: Visitor, as_root: Callable[..., Any]) -> None:
    fields: dict[str, Any] = {"user": "alice", "client_id": "*", "quota": "producer_byte_rate"}
    asked = root.submit("/access/quotas", consent=False, value="1000", **fields)
    assert "penstock quota set alice --default-client-id --produce 1000" in asked.text
    root.submit("/access/quotas", value="1000", **fields)
    ((entity, values),) = as_root(lambda admin: admin.describe_client_quotas()).items()
    assert isinstance(entity, ClientQuotaEntity)
    assert (entity.user, values) == ("alice", {"producer_byte_rate": 1000.0})
    assert "every client id" in root.get("/access").text
    root.submit("/access/quotas", act="remove", **fields)
    assert as_root(lambda admin: admin.describe_client_quotas()) == {}


@pytest.mark.parametrize(
    "fields",
    [
        {"quota": "producer_byte_rate", "value": "1"},
        {"user": "a", "quota": "nothing", "value": "1"},
        {"user": "a", "quota": "producer_byte_rate", "value": "many"},
        {"user": "a", "ip": "10.0.0.1", "quota": "connection_creation_rate", "value": "1"},
    ],
)
def test_a_quota_that_means_nothing_is_refused(root: Visitor, fields: dict[str, Any]) -> None:
    assert root.submit("/access/quotas", **fields).status_code == 400


def test_on_a_cluster_without_an_authorizer_the_page_says_so(console: Visitor) -> None:
    shown = console.get("/access.json").json()
    assert "rules" in shown["reasons"]
    assert console.get("/access").status_code == 200
