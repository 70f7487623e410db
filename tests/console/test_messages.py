"""The messages of a topic: found by place and filter, followed, produced and produced again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from penstock.client.producer import Producer
from penstock.testing.broker import Broker
from tests.console.conftest import ORIGIN, Visitor, run

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture
def topic(broker: Broker, fresh: str) -> str:
    """Three hundred records in two partitions: JSON with a number, keys, and a header on every tenth."""
    broker.create_topic(fresh, 2)

    async def main() -> None:
        async with Producer(broker.client_settings()) as producer:
            for number in range(300):
                await producer.send(
                    fresh,
                    json.dumps({"n": number, "who": f"user-{number % 7}"}),
                    key=f"k{number}",
                    partition=number % 2,
                    timestamp_ms=1_000_000 + number,
                    headers=[("region", b"eu")] if number % 10 == 0 else None,
                )
            await producer.flush()

    run(main())
    return fresh


def found(console: Visitor, topic: str, **query: object) -> list[int]:
    asked = "&".join(f"{name.rstrip('_')}={quote(str(value))}" for name, value in query.items())
    answer = console.get(f"/topics/{topic}/messages.json?limit=1000&{asked}")
    assert answer.status_code == 200, answer.text
    return sorted(json.loads(record["value"])["n"] for record in answer.json()["records"])


def test_the_newest_records_come_first_and_few(console: Visitor, topic: str) -> None:
    shown = console.get(f"/topics/{topic}/messages.json").json()
    records = shown["records"]
    assert shown["hits"] == len(records)
    assert [json.loads(record["value"])["n"] for record in records] == list(range(299, 249, -1))
    assert records[0]["key"] == "k299"


def test_from_the_newest_records_one_can_go_back_to_the_first(console: Visitor, topic: str) -> None:
    seen: list[int] = []
    resume: str | None = ""
    while resume is not None:
        shown = console.get(f"/topics/{topic}/messages.json?resume={resume}").json()
        assert len(shown["records"]) <= 50
        seen += [json.loads(record["value"])["n"] for record in shown["records"]]
        resume = shown["resume"]
    assert seen == list(range(299, -1, -1))


def test_a_search_begins_at_an_offset_or_a_time_and_keeps_to_its_partitions(console: Visitor, topic: str) -> None:
    assert found(console, topic, from_="offset", at=148) == [296, 297, 298, 299]
    assert found(console, topic, from_="time", at="1970-01-01T00:16:40.297Z") == [297, 298, 299]
    assert found(console, topic, from_="offset", at=148, partition=1) == [297, 299]
    assert len(found(console, topic, from_="beginning")) == 300


@pytest.mark.parametrize(
    ("by", "text", "wanted"),
    [
        ("auto", "$.n = 5", [5]),
        ("auto", "user-6", list(range(6, 300, 7))),
        ("text", "$.n = 5", []),
        ("text", "k29", [29, *range(290, 300)]),
        ("key", "k299", [299]),
        ("value", "user-6", list(range(6, 300, 7))),
        ("header", "region=eu", list(range(0, 300, 10))),
        ("header", "region", list(range(0, 300, 10))),
        ("expression", '$.n >= 295 and not $.who = "user-2"', [295, 297, 298, 299]),
        ("expression", 'key matches "^k1?7$"', [7, 17]),
        ("value", 'quote"and\\slash', []),
    ],
)
def test_a_filter_finds_what_is_there(console: Visitor, topic: str, by: str, text: str, wanted: list[int]) -> None:
    assert found(console, topic, from_="beginning", by=by, q=text) == wanted


def test_a_search_goes_on_where_it_was_interrupted(console: Visitor, topic: str) -> None:
    first = console.get(f"/topics/{topic}/messages.json?from=beginning&limit=100").json()
    assert first["resume"]
    rest = console.get(
        f"/topics/{topic}/messages.json?from=beginning&limit=1000&resume={quote(first['resume'])}"
    ).json()
    seen = [json.loads(record["value"])["n"] for part in (first, rest) for record in part["records"]]
    assert sorted(seen) == list(range(300))
    assert rest["resume"] is None


def test_large_records_are_cut_in_lists_and_whole_on_their_own(
    console: Visitor, broker: Broker, fresh: str, produce: Callable[..., None]
) -> None:
    broker.create_topic(fresh)
    large = json.dumps({"text": "x" * 200_000}).encode()
    produce(fresh, *[large] * 60)
    records = console.get(f"/topics/{fresh}/messages.json?limit=1000").json()["records"]
    assert len(records) == 50
    assert all(16_000 < len(record["value"]) < 20_000 for record in records)
    hits = console.get(
        f"/topics/{fresh}/messages.json?limit=1000&from=beginning&by=expression&q=$.text%20exists"
    ).json()
    assert hits["hits"] == 60
    whole = console.get(f"/topics/{fresh}/messages/0/3.json").json()["value"]
    assert json.loads(whole) == json.loads(large)


def test_what_cannot_be_searched_is_said(console: Visitor, topic: str) -> None:
    for query in ("by=expression&q=foo", "from=time&at=soon", "from=never", "partition=9", "from=offset&resume=x"):
        answer = console.get(f"/topics/{topic}/messages.json?{query}")
        assert answer.status_code == 400, query
        assert answer.json()["error"]
    assert console.get("/topics/nowhere/messages").status_code == 404


def test_the_form_stays_with_what_is_wrong_in_it(console: Visitor, topic: str) -> None:
    for query, words in (("by=expression&q=foo%20=%201", "is no field"), ("from=time&at=soon", "is not a time")):
        answer = console.get(f"/topics/{topic}/messages?{query}")
        assert answer.status_code == 400
        assert words in answer.text
        assert 'name="q"' in answer.text
        assert 'id="search"' not in answer.text


def test_one_record_is_shown_in_every_format(console: Visitor, topic: str) -> None:
    shown = console.get(f"/topics/{topic}/messages/1/7.json?format=hex").json()
    assert bytes.fromhex(shown["value"]) == b'{"n": 15, "who": "user-1"}'
    assert "user-1" in console.get(f"/topics/{topic}/messages/1/7").text
    for place in ("1/150", "7/0", "1/99999999999"):
        assert console.get(f"/topics/{topic}/messages/{place}.json").status_code == 404


def test_a_record_is_produced_and_produced_again_byte_for_byte(console: Visitor, broker: Broker, fresh: str) -> None:
    broker.create_topic(fresh)
    asked = console.submit(f"/topics/{fresh}/produce", consent=False, key="k", value="a\nb", headers="h=1")
    assert f"penstock produce {fresh} -H h=1 --key k" in asked.text
    done = console.submit(f"/topics/{fresh}/produce", key="k", value="a\nb", headers="h=1")
    assert f"Produced to {fresh}-0 at offset 0." in done.text
    assert "Produced again" in console.submit(f"/topics/{fresh}/messages/0/0/again").text
    console.submit(f"/topics/{fresh}/produce", key="k", tombstone="1")
    shown = console.get(f"/topics/{fresh}/messages.json?from=beginning").json()["records"]
    assert [(r["key"], r["value"], r["headers"]) for r in shown] == [
        ("k", "a\nb", [["h", "1"]]),
        ("k", "a\nb", [["h", "1"]]),
        ("k", None, []),
    ]
    assert "a\nb" in console.get(f"/topics/{fresh}/produce?again=0-0").text


def test_a_schema_makes_avro_readable(
    console: Visitor, broker: Broker, fresh: str, produce: Callable[..., None]
) -> None:
    broker.create_topic(fresh)
    produce(fresh, b"\x00\x00\x00\x00\x01\x0eoptions")
    form = {"csrf": console.token(), "schema": '"string"'}
    console.post(f"/topics/{fresh}/schema", data=form, headers={"origin": ORIGIN})
    (record,) = console.get(f"/topics/{fresh}/messages.json?format=avro").json()["records"]
    assert (record["value"], record["valueFormat"]) == ('"options"', "avro")
    refused = console.post(f"/topics/{fresh}/schema", data={**form, "schema": "{"}, headers={"origin": ORIGIN})
    assert refused.status_code == 400


def test_internal_topics_are_readable(console: Visitor, topic: str, with_admin: Callable[..., Any]) -> None:
    with_admin(lambda admin: admin.alter_group_offsets(f"g-{topic}", {(topic, 0): 5}))
    records = console.get(f"/topics/__consumer_offsets/messages.json?from=beginning&limit=1000&q=g-{topic}").json()[
        "records"
    ]
    assert json.loads(records[-1]["key"])["topic"] == topic
    assert json.loads(records[-1]["value"])["offset"] == 5


@pytest.mark.timeout(300)
def test_in_a_browser_a_search_shows_hits_and_script_in_them_stays_text(
    browser_page: Page, topic: str, produce: Callable[..., None]
) -> None:
    produce(topic, b"<script>alert(1)</script><b>bold</b>", key=b"<i>k</i>", partition=0)
    browser_page.goto(f"/topics/{topic}/messages")
    rows = browser_page.locator("#rows tr")
    rows.nth(49).wait_for()
    rows.filter(has_text="<script>alert(1)</script><b>bold</b>").wait_for()
    assert browser_page.locator("#rows b, #rows i, #rows script").count() == 0
    browser_page.keyboard.press("/")
    browser_page.keyboard.type("user-6")
    browser_page.locator("select[name=from]").select_option("beginning")
    browser_page.keyboard.press("Tab")
    browser_page.get_by_role("button", name="Search").click()
    browser_page.locator("#search[data-state=done]").wait_for()
    assert rows.count() == len(range(6, 300, 7))
    assert "42 found in 301 of 301" in browser_page.locator("#progress-text").inner_text()
    rows.first.locator("a").click()
    browser_page.locator("#value").filter(has_text="user-6").wait_for()


@pytest.mark.timeout(300)
def test_in_a_browser_older_and_further_records_are_shown_on_request(
    browser_page: Page, broker: Broker, fresh: str, produce: Callable[..., None]
) -> None:
    broker.create_topic(fresh)
    produce(fresh, *[f"number {n}".encode() for n in range(520)])
    rows, done = browser_page.locator("#rows tr"), browser_page.locator("#search[data-state=done]")
    browser_page.goto(f"/topics/{fresh}/messages")
    browser_page.get_by_role("button", name="Older records").click()
    rows.nth(99).filter(has_text="number 420").wait_for()
    browser_page.goto(f"/topics/{fresh}/messages?from=beginning")
    browser_page.get_by_role("button", name="Next records").click()
    rows.last.filter(has_text="number 519").wait_for()
    done.wait_for()
    assert rows.count() == 500, "a page does not grow without end"
    assert not browser_page.get_by_role("button", name="Next records").is_visible()


def test_in_a_browser_new_records_arrive_live_until_stopped(
    browser_page: Page, broker: Broker, fresh: str, produce: Callable[..., None]
) -> None:
    broker.create_topic(fresh)
    produce(fresh, b"old")
    browser_page.goto(f"/topics/{fresh}/messages?from=live")
    browser_page.locator("#progress-text").filter(has_text="following").wait_for()
    produce(fresh, b"first")
    rows = browser_page.locator("#rows tr")
    rows.filter(has_text="first").wait_for()
    produce(fresh, b"second")
    rows.nth(1).wait_for()
    assert "second" in rows.first.inner_text()
    assert rows.filter(has_text="old").count() == 0
    browser_page.get_by_role("button", name="Stop").click()
    browser_page.locator("#search[data-state=stopped]").wait_for()
