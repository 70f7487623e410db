"""Every page and every change as nobody in particular, as a user without rights, and as an administrator.

The tables name every route, so a new page or change has to be put into them, with what a user without rights gets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.routing import Route

from penstock.client.admin import Admin, ResourceType
from penstock.client.producer import Producer
from penstock.console.app import create_app
from penstock.console.guard import POLICY, allowed_hosts
from penstock.testing.broker import Broker
from tests.console.conftest import ADDRESS, ORIGIN, Visitor, run

EVIL = '"><script>alert(1)</script>'

PAGES = {
    "/": 200,
    "/topics": 200,
    "/topics/new": 200,
    "/topics/{name}": 403,
    "/topics/{name}/configs": 403,
    "/topics/{name}/messages": 403,
    "/topics/{name}/messages/{partition:int}/{offset:int}": 403,
    "/topics/{name}/produce": 403,
    "/groups": 200,
    "/groups/{name}": 403,
    "/queues": 200,
    "/queues/{name}": 403,
    "/queues/{name}/dead-letters": 403,
    "/transactions": 200,
    "/clients": 200,
    "/clients/{name}": 404,
    "/cluster": 200,
    "/pipelines": 200,
    "/pipelines/{name}": 404,
    "/access": 200,
    "/access/users/{name}": 403,
}
"""Path with parameters, and what a user without rights gets; with 200 it is a page that shows nothing."""
MISSING = {"/clients/{name}", "/pipelines/{name}"}
"""Pages of things that are not there."""

CHANGES: dict[str, dict[str, Any]] = {
    "/topics": {"name": "new"},
    "/topics/{name}/delete": {},
    "/topics/{name}/partitions": {"partitions": "2"},
    "/topics/{name}/configs": {"config": "retention.ms", "value": "1", "act": "set"},
    "/topics/{name}/produce": {"value": "x"},
    "/topics/{name}/messages/{partition:int}/{offset:int}/again": {},
    "/groups/{name}/reset": {"topic": "secrets", "kind": "earliest"},
    "/groups/{name}/delete": {},
    "/queues/{name}/reset": {"topic": "secrets", "kind": "earliest"},
    "/queues/{name}/delete": {},
    "/queues/{name}/redrive": {},
    "/transactions/abort": {"where": "secrets:0:0"},
    "/access/rules/add": {"user": "nobody", "operation": "all", "type": "topic", "name": "*"},
    "/access/rules/remove": {"rule": "2\norders\nUser:alice\n2\n3\n*\n3"},
    "/access/users/password": {"user": "mallory", "password": "x"},
    "/access/users/remove": {"user": "alice"},
    "/access/quotas": {"user": "alice", "quota": "producer_byte_rate", "value": "1"},
}
"""Path with a form that an administrator may submit."""

OF_THE_CONSOLE = {"/login", "/logout", "/favicon.ico", "/topics/{name}/schema"}
"""They neither show nor change anything of the cluster."""


@pytest.fixture(scope="module", autouse=True)
def things(secured: Broker) -> None:
    """What the pages of the table are about, with script in the name of a group, a key, a value and a header."""

    async def main() -> None:
        async with Admin(secured.client_settings("root")) as admin:
            for group in ("readers", EVIL):
                await admin.alter_group_offsets(group, {("secrets", 0): 0})
            await admin.alter_share_group_offsets("jobs", {("secrets", 0): 0})
            await admin.create_topic("secrets.dead", configs={"errors.deadletterqueue.group.enable": "true"})
            dead_letters = {"errors.deadletterqueue.topic.name": "secrets.dead"}
            await admin.alter_configs(ResourceType.GROUP, "jobs", dead_letters)
        async with Producer(secured.client_settings("root")) as producer:
            await producer.send("secrets", EVIL.encode(), key=EVIL.encode(), headers=[(EVIL, EVIL.encode())])
            await producer.flush()

    run(main())


def routes(visitor: Visitor) -> Iterator[tuple[str, str]]:
    """Every method and path of the application, without the twins of pages."""
    for route in visitor.app.routes:
        if isinstance(route, Route):
            for method in (route.methods or set()) - {"HEAD"}:
                if not route.path.endswith((".json", ".live")):
                    yield method, route.path


def filled(path: str) -> str:
    name = {"/topics": "secrets", "/queues": "jobs", "/clients": "any", "/access": "alice"}.get(
        f"/{path.split('/')[1]}"
    )
    return re.sub(r"\{\w+:int\}", "0", path.replace("{name}", name or "readers"))


def test_every_route_is_in_the_tables(login_console: Visitor) -> None:
    found = set(routes(login_console))
    expected = {("GET", path) for path in PAGES} | {("POST", path) for path in CHANGES}
    assert {each for each in found if each[1] not in OF_THE_CONSOLE} == expected, (
        "add the new route to PAGES or CHANGES of this module"
    )


def page_addresses() -> list[str]:
    return sorted(PAGES)


@pytest.mark.parametrize("path", page_addresses())
def test_a_page_needs_a_login(login_console: Visitor, path: str) -> None:
    address = filled(path)
    stem = "/index" if address == "/" else address
    assert login_console.get(address, follow_redirects=False).headers["location"].startswith("/login")
    assert login_console.get(stem + ".json").status_code == 401
    assert login_console.get(stem + ".live").status_code == 401


def test_pages_show_a_user_without_rights_nothing_of_the_cluster(login_console: Visitor) -> None:
    login_console.log_in("nobody")
    for path, status in PAGES.items():
        address = filled(path)
        stem = "/index" if address == "/" else address
        page, data = login_console.get(address), login_console.get(stem + ".json")
        assert (path, page.status_code, data.status_code) == (path, status, status)
        if status == 200:
            for name in ("secrets", "readers", "jobs"):
                assert name not in page.text, path
                assert name not in data.text, path


def test_every_page_opens_for_an_administrator_with_script_as_text_and_a_strict_policy(login_console: Visitor) -> None:
    login_console.log_in("root")
    for path in PAGES:
        address, status = filled(path), 404 if path in MISSING else 200
        page = login_console.get(address)
        stem = "/index" if address == "/" else address
        assert (path, page.status_code, login_console.get(stem + ".json").status_code) == (path, status, status)
        assert "<script>alert" not in page.text
        assert not re.search(r"\son[a-z]+=|javascript:|\sstyle=", page.text), path
        assert not re.search(r'(?:src|href|action)="(?:https?:)?//', page.text), path
        assert page.headers["content-security-policy"] == POLICY
        assert page.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", sorted(CHANGES))
def test_a_change_needs_a_login_a_token_and_its_own_origin(login_console: Visitor, path: str) -> None:
    address = filled(path)
    anonymous = login_console.post(address, data=CHANGES[path], headers={"origin": ORIGIN}, follow_redirects=False)
    assert anonymous.headers["location"] == "/login"
    login_console.log_in("root")
    form = {**CHANGES[path], "consent": "any"}
    assert login_console.post(address, data=form, headers={"origin": ORIGIN}).status_code == 403
    form["csrf"] = login_console.token()
    assert login_console.post(address, data=form, headers={"origin": "http://evil.example"}).status_code == 403
    assert login_console.get(address).status_code in (200, 404, 405)


@pytest.mark.parametrize("path", sorted(CHANGES))
def test_a_change_is_refused_to_a_user_without_rights_and_asked_of_an_administrator(
    login_console: Visitor, path: str
) -> None:
    login_console.log_in("nobody")
    refused = login_console.submit(filled(path), **CHANGES[path])
    assert refused.status_code == 403, refused.text
    login_console.log_in("root")
    asked = login_console.submit(filled(path), consent=False, **CHANGES[path])
    assert asked.status_code == 200, asked.text
    assert '<pre class="command" tabindex="0">penstock ' in asked.text
    assert 'name="consent" value="' in asked.text


def test_names_with_line_breaks_become_neither_headers_nor_paths(login_console: Visitor) -> None:
    login_console.log_in("root")
    for path in (
        "/topics/a~0D~0ASet-Cookie~3A~20x",
        "/topics/~2E~2E~2F~2E~2E",
        "/groups/%0d%0aX-Evil:1",
        "/topics/~00",
    ):
        answer = login_console.get(path)
        assert answer.status_code in (400, 404, 502), path
        assert "x-evil" not in answer.headers
        assert "set-cookie" not in answer.headers
    done = login_console.submit("/groups/a~0D~0AX-Evil~3A1/delete")
    assert "x-evil" not in done.headers


def test_oversized_names_queries_and_forms_are_refused_or_cut(login_console: Visitor) -> None:
    login_console.log_in("root")
    long = "a" * 20_000
    assert login_console.get(f"/topics/{long}").status_code in (400, 404, 502)
    assert login_console.get(f"/topics?q={long}").status_code == 200
    assert login_console.submit("/topics", name=long).status_code == 400
    token = login_console.token()
    many = "&".join([f"csrf={token}", *(f"f{n}=1" for n in range(5_000))])
    headers = {"origin": ORIGIN, "content-type": "application/x-www-form-urlencoded"}
    assert login_console.post("/topics", content=many, headers=headers).status_code == 400
    assert login_console.post("/login", content=b"x" * (5 << 20), headers=headers).status_code == 413
    assert login_console.get("/topics", headers={"cookie": "a" * 100_000}).status_code in (200, 431)


def test_a_cluster_that_does_not_answer_is_said_to_people_programs_and_live_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.console.session._PATIENCE_MS", 300)
    app = create_app({"bootstrap_servers": "127.0.0.1:1"}, allowed_hosts(ADDRESS))
    with Visitor(app, base_url=ORIGIN) as visitor:
        assert visitor.get("/topics").status_code == 503
        assert "No broker answers" in visitor.get("/topics.json").json()["error"]
        events = visitor.get("/topics.live")
    assert events.status_code == 200, "a browser reads no reason from a refusal, and does not come back after it"
    assert re.search(r"event: failed\ndata: .*No broker answers", events.text)
