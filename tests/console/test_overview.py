"""The overview, against a real broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.testing.broker import Broker
from tests.console.conftest import Visitor, until


def test_it_counts_what_is_there_and_shows_who_is_behind(
    console: Visitor, broker: Broker, fresh: str, produce: Callable[..., None], with_admin: Callable[..., Any]
) -> None:
    broker.create_topic(fresh)
    produce(fresh, *[b"x"] * 1_000)
    with_admin(lambda admin: admin.alter_group_offsets(fresh, {(fresh, 0): 1}))
    with_admin(lambda admin: admin.alter_share_group_offsets(f"q-{fresh}", {(fresh, 0): 2}))

    def measured() -> Any:
        shown = console.get("/index.json").json()
        return shown if f"q-{fresh}" in [row["name"] for row in shown["queues"]] else None

    shown = until(measured, "the queue")
    assert shown["watched"]
    assert shown["topics"] == len(with_admin(lambda admin: admin.list_topics()))
    assert {"name": fresh, "lag": 999, "state": "Empty"}.items() <= {row["name"]: row for row in shown["groups"]}[
        fresh
    ].items()
    assert {row["name"]: row["lag"] for row in shown["queues"]}[f"q-{fresh}"] == 998
    assert [problem for problem in shown["problems"] if fresh in problem["text"]] == []
    assert f"/groups/{fresh}" in console.get("/").text


def test_without_metrics_the_protocol_tells_who_is_behind(fresh: str) -> None:
    from penstock.console.app import create_app
    from penstock.console.guard import allowed_hosts
    from tests.console.conftest import ADDRESS, ORIGIN, run

    with Broker() as plain:
        plain.create_topic(fresh)

        async def prepare() -> None:
            from penstock.client.admin import Admin
            from penstock.client.producer import Producer

            async with Producer(plain.client_settings()) as producer, Admin(plain.client_settings()) as admin:
                await producer.send_and_wait(fresh, b"x")
                await admin.alter_group_offsets("g", {(fresh, 0): 0})
                await admin.alter_share_group_offsets("q", {(fresh, 0): 0})

        run(prepare())
        with Visitor(create_app(plain.client_settings(), allowed_hosts(ADDRESS)), base_url=ORIGIN) as console:
            shown = console.get("/index.json").json()
            assert "more" in console.get("/").text
            readers = console.get(f"/topics/{fresh}.json").json()["groups"]
    assert [(row["name"], row["lag"]) for row in shown["groups"]] == [("g", 1)]
    assert [(row["name"], row["lag"]) for row in shown["queues"]] == [("q", 1)]
    assert [(reader["name"], reader["queue"], reader["lag"]) for reader in readers] == [("g", False, 1), ("q", True, 1)]
