"""The pages of consumer groups, against a real broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.client.consumer import Consumer
from penstock.testing.broker import Broker
from tests.console.conftest import Visitor, run, until


@pytest.fixture
def behind(broker: Broker, fresh: str, produce: Callable[..., None], with_admin: Callable[..., Any]) -> str:
    """A topic of ten records, and a group of the same name that has committed offset 4."""
    broker.create_topic(fresh)
    produce(fresh, *[b"x"] * 10)
    with_admin(lambda admin: admin.alter_group_offsets(fresh, {(fresh, 0): 4}))
    return fresh


def test_lag_is_the_end_less_the_committed_offset(console: Visitor, behind: str) -> None:
    def aged() -> Any:
        (row,) = [row for row in console.get("/groups.json").json()["groups"] if row["group"] == behind]
        return row if row["ageSeconds"] is not None else None

    row = until(aged, "its age")
    assert (row["lag"], row["topics"]) == (6, [behind])
    shown = console.get(f"/groups/{behind}.json").json()
    assert [(p["committed"], p["end"], p["lag"]) for p in shown["partitions"]] == [(4, 10, 6)]
    assert behind in console.get("/groups").text
    assert "nobody" in console.get(f"/groups/{behind}").text


def test_a_member_is_shown_with_its_partitions_and_stands_in_the_way_of_a_reset(
    console: Visitor, broker: Broker, behind: str
) -> None:
    async def member() -> Any:
        settings = broker.client_settings()
        async with Consumer(settings, group_id=behind, client_id="reader", auto_offset_reset="earliest") as consumer:
            consumer.subscribe([behind])
            await consumer.poll(timeout_ms=20_000)
            import asyncio

            shown = await asyncio.to_thread(lambda: console.get(f"/groups/{behind}.json").json())
            refused = await asyncio.to_thread(
                lambda: console.submit(f"/groups/{behind}/reset", topic=behind, kind="earliest")
            )
            return shown, refused.status_code

    shown, status = run(member())
    assert [event["who"].split(" at ")[0] for event in shown["events"] if event["event"] == "joined"] == ["reader"]
    assert "joined" in console.get(f"/groups/{behind}").text
    (told,) = shown["members"]
    assert (told["client"], told["assignment"]) == ("reader", {behind: [0]})
    assert status == 409


def test_a_group_that_nobody_reads_for_waits_for_a_member(console: Visitor, behind: str) -> None:
    (words,) = console.get(f"/groups/{behind}.json").json()["waits"]
    assert words == "Waiting for a member: 6 records to read, and nobody reads them."
    assert words in console.get(f"/groups/{behind}").text


def test_a_reset_previews_and_does_what_it_says(console: Visitor, behind: str, with_admin: Callable[..., Any]) -> None:
    def committed() -> int:
        return int(with_admin(lambda admin: admin.list_group_offsets(behind))[behind, 0].offset)

    asked = console.submit(f"/groups/{behind}/reset", consent=False, topic=behind, kind="shift", value="-1")
    assert f"penstock group reset-offsets {behind} --topic {behind} --shift-by -1 --execute" in asked.text
    assert "<td>-1</td>" in asked.text
    assert committed() == 4
    assert console.submit(f"/groups/{behind}/reset", topic=behind, kind="shift", value="-1").status_code == 200
    assert committed() == 3
    for kind, value, expected in [("earliest", "", 0), ("latest", "", 10), ("offset", "99", 10), ("offset", "7", 7)]:
        console.submit(f"/groups/{behind}/reset", topic=behind, kind=kind, value=value, partitions="0")
        assert committed() == expected
    console.submit(f"/groups/{behind}/reset", topic=behind, kind="datetime", value="2001-01-01T00:00:00")
    assert committed() == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "datetime", "value": "soon"},
        {"kind": "offset", "value": "x"},
        {"kind": "nowhere"},
        {"kind": "earliest", "partitions": "7"},
    ],
)
def test_a_reset_to_nowhere_is_refused(console: Visitor, behind: str, fields: dict[str, Any]) -> None:
    assert console.submit(f"/groups/{behind}/reset", topic=behind, **fields).status_code == 400


def test_a_group_is_deleted(console: Visitor, behind: str) -> None:
    assert f"Group {behind} is deleted." in console.submit(f"/groups/{behind}/delete").text
    assert console.get(f"/groups/{behind}.json").status_code == 404


def test_script_in_the_name_of_a_group_stays_text(
    console: Visitor, broker: Broker, fresh: str, with_admin: Callable[..., Any]
) -> None:
    broker.create_topic(fresh)
    evil = "<script>alert(1)</script>"
    with_admin(lambda admin: admin.alter_group_offsets(evil, {(fresh, 0): 0}))
    assert "<script>alert" not in console.get("/groups").text
    console.submit("/groups/~3Cscript~3Ealert~281~29~3C~2Fscript~3E/delete")
    assert evil not in [row["group"] for row in console.get("/groups.json").json()["groups"]]
