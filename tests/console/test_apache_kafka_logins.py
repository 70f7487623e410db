"""The console in front of Apache Kafka: every page opens, logins count, and changes are made."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.peers import KafkaPeer
from penstock.client.admin import Admin
from penstock.client.producer import Producer
from penstock.console.app import create_app
from penstock.console.guard import allowed_hosts
from tests.conformance.secured import ADMINISTRATOR, PASSWORDS, SecuredKafkaPeer
from tests.console.conftest import ADDRESS, ORIGIN, Visitor, run
from tests.console.test_routes import MISSING, PAGES

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "share.coordinator.state.topic.num.partitions": "1",
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaPeer]:
    with SecuredKafkaPeer(SETTINGS) as peer:
        run(_fill(_settings(peer) | {"sasl_username": ADMINISTRATOR, "sasl_password": PASSWORDS[ADMINISTRATOR]}))
        yield peer


@pytest.fixture
def visitor(kafka: KafkaPeer) -> Iterator[Visitor]:
    with Visitor(create_app(_settings(kafka), allowed_hosts(ADDRESS)), base_url=ORIGIN) as visitor:
        yield visitor


def test_every_page_opens_as_an_administrator(visitor: Visitor) -> None:
    visitor.log_in(ADMINISTRATOR, PASSWORDS[ADMINISTRATOR])
    for path in PAGES:
        address = _filled(path)
        stem = "/index" if address == "/" else address
        expected = 404 if path in MISSING else 200
        assert (path, visitor.get(address).status_code) == (path, expected)
        assert (path, visitor.get(stem + ".json").status_code) == (path, expected)


def test_what_only_penstock_tells_is_said_to_be_missing(visitor: Visitor) -> None:
    visitor.log_in(ADMINISTRATOR, PASSWORDS[ADMINISTRATOR])
    assert not visitor.get("/clients.json").json()["is_shown"]
    assert "Apache Kafka has no request for it" in visitor.get("/clients").text
    assert visitor.get("/queues/jobs.json").json()["has_windows"] is False
    assert [row["leads"] > 0 for row in visitor.get("/cluster.json").json()["brokers"]] == [True]


def test_a_user_without_rights_sees_nothing_and_changes_nothing(visitor: Visitor) -> None:
    assert visitor.log_in("nobody-else", "x").status_code == 401
    name = "nobody"
    visitor.log_in(name, PASSWORDS[name])
    assert visitor.topic_names() == []
    assert visitor.get("/topics/secrets.json").status_code == 403
    assert visitor.submit("/topics/secrets/delete").status_code == 403
    assert visitor.submit("/access/rules/add", user=name, operation="all", type="topic", name="*").status_code == 403


def test_rules_quotas_and_topics_are_changed(visitor: Visitor) -> None:
    visitor.log_in(ADMINISTRATOR, PASSWORDS[ADMINISTRATOR])
    visitor.submit("/topics", name="made-here", partitions=2)
    assert "made-here" in visitor.topic_names()
    name = "nobody"
    visitor.submit("/access/rules/add", user=name, operation="read", type="topic", name="made-here")
    question = f"/access/users/{name}.json?operation=describe&type=topic&name=made-here"
    assert visitor.get(question).json()["answer"]["allowed"]
    visitor.submit("/access/quotas", user=name, quota="producer_byte_rate", value="1000")
    assert [row["quotas"] for row in visitor.get("/access.json").json()["quotas"]] == [{"producer_byte_rate": 1000.0}]
    visitor.log_in(name, PASSWORDS[name])
    assert visitor.topic_names() == ["made-here"]


def _settings(peer: KafkaPeer) -> dict[str, object]:
    return {"bootstrap_servers": peer.bootstrap, "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}


async def _fill(settings: dict[str, object]) -> None:
    async with Admin(settings) as admin:
        await admin.create_topic("secrets")
        await admin.alter_group_offsets("readers", {("secrets", 0): 0})
        await admin.alter_share_group_offsets("jobs", {("secrets", 0): 0})
    async with Producer(settings) as producer:
        await producer.send("secrets", b"x")
        await producer.flush()


def _filled(path: str) -> str:
    name = {"topics": "secrets", "queues": "jobs", "access": "alice"}.get(path.split("/")[1], "readers")
    return path.replace("{name}", name).replace("{partition:int}", "0").replace("{offset:int}", "0")
