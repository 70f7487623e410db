"""The pages of topics, against a real broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from penstock.client.admin import ResourceType
from penstock.console.app import create_app
from penstock.console.guard import allowed_hosts
from penstock.testing.broker import Broker
from tests.console.conftest import ADDRESS, ORIGIN, Visitor

if TYPE_CHECKING:
    from playwright.sync_api import Page


def test_the_list_shows_what_is_in_each_topic(
    console: Visitor, broker: Broker, fresh: str, produce: Callable[..., None]
) -> None:
    broker.create_topic(fresh, 3)
    produce(fresh, b"a", b"b", b"c")
    (row,) = [row for row in console.get("/topics.json").json()["topics"] if row["name"] == fresh]
    assert (row["partitions"], row["records"]) == (3, 3)
    assert row["bytes"] > 0
    page = console.get("/topics").text
    assert f'href="/topics/{fresh}"' in page


def test_the_groups_and_queues_that_read_a_topic_are_shown_with_their_lag(
    console: Visitor, broker: Broker, fresh: str, produce: Callable[..., None], with_admin: Callable[..., Any]
) -> None:
    broker.create_topic(fresh)
    produce(fresh, *[b"x"] * 9)
    with_admin(lambda admin: admin.alter_group_offsets(f"g-{fresh}", {(fresh, 0): 4}))
    with_admin(lambda admin: admin.alter_share_group_offsets(f"q-{fresh}", {(fresh, 0): 2}))
    wanted = [{"name": f"q-{fresh}", "queue": True, "lag": 7}, {"name": f"g-{fresh}", "queue": False, "lag": 5}]
    with Visitor(create_app(broker.client_settings(), allowed_hosts(ADDRESS)), base_url=ORIGIN) as visitor:
        assert visitor.get(f"/topics/{fresh}.json").json()["groups"] == wanted
        (row,) = [row for row in visitor.get(f"/topics.json?q={fresh}").json()["topics"] if row["name"] == fresh]
        assert (row["groups"], row["lag"]) == (2, 7)
        assert f"/queues/q-{fresh}" in visitor.get(f"/topics/{fresh}").text


def test_the_search_narrows_the_list(console: Visitor, broker: Broker, fresh: str) -> None:
    for name in (fresh, f"{fresh}.dead", "people"):
        broker.create_topic(name)
    found = console.get(f"/topics.json?q={fresh.upper()}").json()["topics"]
    assert [row["name"] for row in found] == [fresh, f"{fresh}.dead"]


def test_a_topic_shows_leaders_and_offsets_as_the_admin_client_reads_them(
    console: Visitor, broker: Broker, produce: Callable[..., None]
) -> None:
    broker.create_topic("a.b", 2)
    produce("a.b", b"x", b"y", partition=1)
    shown = console.get("/topics/a~2Eb.json").json()
    assert [(p["partition"], p["first"], p["end"], p["records"]) for p in shown["partitions"]] == [
        (0, 0, 0, 0),
        (1, 0, 2, 2),
    ]
    assert console.get("/topics/a~2Eb").status_code == 200


def test_many_partitions_come_in_pages(console: Visitor, broker: Broker) -> None:
    broker.create_topic("wide", 501)
    assert len(console.get("/topics/wide.json").json()["partitions"]) == 500
    last = console.get("/topics/wide.json?page=2").json()["partitions"]
    assert [p["partition"] for p in last] == [500]
    assert console.get("/topics/wide.json?page=3").status_code == 400


def test_an_unknown_topic_is_not_found_in_both_forms(console: Visitor) -> None:
    assert console.get("/topics/none").status_code == 404
    answer = console.get("/topics/none.json")
    assert answer.status_code == 404
    assert "none" in answer.json()["error"]


def test_a_change_shows_its_command_first_and_is_done_with_consent(
    console: Visitor, fresh: str, with_admin: Callable[..., Any]
) -> None:
    asked = console.submit("/topics", consent=False, name=fresh, partitions=4, configs="retention.ms=1000")
    assert f"penstock topic create {fresh} --partitions 4 -c retention.ms=1000" in asked.text
    assert fresh not in console.topic_names()
    done = console.submit("/topics", name=fresh, partitions=4, configs="retention.ms=1000")
    assert f"Topic {fresh} is created." in done.text
    assert len(with_admin(lambda admin: admin.describe_topic(fresh)).partitions) == 4


def test_a_notice_is_shown_where_the_change_leads_and_to_its_browser_only(console: Visitor, fresh: str) -> None:
    words = f"Topic {fresh} is created."
    done = console.submit("/topics", name=fresh)
    assert words in done.text
    assert words not in console.get("/topics").text
    assert words in console.get(str(done.url)).text
    console.cookies.clear()
    assert words not in console.get(str(done.url)).text


def test_what_the_broker_would_refuse_is_refused_before_the_question(console: Visitor, fresh: str) -> None:
    refused = console.submit("/topics", consent=False, name=fresh, configs="retention.ms=soon")
    assert refused.status_code == 502
    assert "retention.ms" in refused.text


def test_a_config_is_set_and_taken_back(
    console: Visitor, broker: Broker, fresh: str, with_admin: Callable[..., Any]
) -> None:
    broker.create_topic(fresh)

    def value() -> str:
        entries = with_admin(lambda admin: admin.describe_configs(ResourceType.TOPIC, fresh, ["retention.ms"]))
        return str(entries["retention.ms"].value)

    before = value()
    console.submit(f"/topics/{fresh}/configs", config="retention.ms", value="4711", act="set")
    assert value() == "4711"
    console.submit(f"/topics/{fresh}/configs", config="retention.ms", value="4711", act="unset")
    assert value() == before


def test_partitions_are_raised_and_a_topic_is_deleted(console: Visitor, broker: Broker, fresh: str) -> None:
    broker.create_topic(fresh)
    console.submit(f"/topics/{fresh}/partitions", partitions=3)
    assert console.get(f"/topics/{fresh}.json").json()["total"] == 3
    assert f"Topic {fresh} is deleted." in console.submit(f"/topics/{fresh}/delete").text
    assert console.get(f"/topics/{fresh}.json").status_code == 404


def test_script_in_a_search_stays_text(console: Visitor) -> None:
    assert "<script>alert" not in console.get("/topics?q=<script>alert(1)</script>").text


def test_a_broker_that_is_not_there_is_said_in_plain_words() -> None:
    settings = {"bootstrap_servers": "127.0.0.1:1", "default_api_timeout_ms": 100}
    with Visitor(create_app(settings, allowed_hosts(ADDRESS)), base_url=ORIGIN) as console:
        answer = console.get("/topics.json")
    assert answer.status_code == 503
    assert answer.json()["error"]


@pytest.mark.timeout(300)
def test_in_a_browser_a_topic_is_created_by_keyboard_and_its_records_arrive(
    browser_page: Page, fresh: str, produce: Callable[..., None]
) -> None:
    browser_page.goto("/topics/new")
    browser_page.locator("input[name=name]:focus").wait_for()
    browser_page.keyboard.type(fresh)
    browser_page.keyboard.press("Enter")
    browser_page.get_by_role("heading", name=f"Create topic {fresh}?").wait_for()
    browser_page.locator("button:focus").wait_for()  # a key before that goes to nobody
    browser_page.keyboard.press("Enter")
    browser_page.get_by_role("status").filter(has_text=f"Topic {fresh} is created.").wait_for()
    records = browser_page.locator(".facts dd").nth(1)
    records.filter(has_text="0").wait_for()
    produce(fresh, *[b"x"] * 7)
    records.filter(has_text="7").wait_for()
    browser_page.reload()
    assert browser_page.get_by_role("status").count() == 0
