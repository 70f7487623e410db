"""Logging in as a user of the cluster: who gets in, what they see, and when it ends."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.certificates import create_certificates
from penstock.client.admin import Admin, ScramUpsertion
from penstock.console.app import create_app
from penstock.console.guard import allowed_hosts, cookie, cookie_name
from penstock.console.logins import Attempts, Rules, TooManyTries, wants_login
from penstock.console.run import ListenError, parse_listen
from penstock.testing.broker import Broker
from tests.console.conftest import ADDRESS, ORIGIN, Visitor, login_settings, run

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def test_who_is_not_logged_in_sees_the_login_and_nothing_else(login_console: Visitor) -> None:
    away = login_console.get("/topics/orders?page=1", follow_redirects=False)
    assert (away.status_code, away.headers["location"]) == (303, "/login?next=%2Ftopics%2Forders%3Fpage%3D1")
    assert login_console.get("/topics.json").status_code == 401
    assert login_console.get("/topics.live").status_code == 401
    page = login_console.get("/topics").text
    assert "Log in to Penstock" in page
    assert 'href="/topics"' not in page


def test_a_login_leads_where_its_person_wanted_to_go(login_console: Visitor) -> None:
    assert login_console.log_in("alice", next="/topics/orders?page=1").headers["location"] == "/topics/orders?page=1"


@pytest.mark.parametrize(
    "onward", ["https://evil.example/", "//evil.example", "/\\evil.example", "/\t/evil.example", "/login", "x"]
)
def test_a_login_leads_to_no_other_site(login_console: Visitor, onward: str) -> None:
    assert login_console.log_in("alice", next=onward).headers["location"] == "/"


def test_people_see_and_do_what_the_broker_allows_their_user(login_console: Visitor) -> None:
    login_console.log_in("root")
    assert {"orders", "secrets"} <= set(login_console.topic_names())
    login_console.log_in("alice")
    assert login_console.topic_names() == ["orders"]
    assert login_console.get("/topics/secrets.json").status_code == 403
    assert login_console.submit("/topics/secrets/delete").status_code == 403
    assert login_console.submit("/topics", name="new").status_code == 403
    login_console.log_in("nobody")
    assert login_console.topic_names() == []
    login_console.log_in("root")
    assert "secrets" in login_console.topic_names()


def test_the_window_of_a_queue_needs_rights_on_its_group_alone(login_console: Visitor, secured: Broker) -> None:
    async def begin() -> None:
        async with Admin(secured.client_settings("root")) as admin:
            await admin.alter_share_group_offsets("billing", {("orders", 0): 0})

    run(begin())
    login_console.log_in("alice")
    assert login_console.get("/queues/billing.json").json()["has_windows"]
    login_console.log_in("nobody")
    assert login_console.get("/queues/billing.json").status_code == 403


def test_a_wrong_password_is_refused_and_the_page_keeps_the_user(login_console: Visitor) -> None:
    refused = login_console.log_in("alice", "wrong")
    assert refused.status_code == 401
    assert 'value="alice"' in refused.text
    assert "wrong" not in refused.text
    assert login_console.get("/topics.json").status_code == 401


def test_a_login_without_the_token_of_its_page_is_refused(login_console: Visitor) -> None:
    form = {"csrf": "0" * 64, "user": "alice", "password": "alice"}
    assert login_console.post("/login", data=form, headers={"origin": ORIGIN}).status_code == 403


def test_each_login_has_a_new_id_and_the_old_one_is_worth_nothing(login_console: Visitor) -> None:
    login_console.get("/login")
    before = login_console.cookies["penstock-console-8080"]
    login_console.log_in("alice")
    first = login_console.cookies["penstock-console-8080"]
    form = {"csrf": login_console.token(), "user": "alice", "password": "alice"}
    login_console.post("/login", data=form, headers={"origin": ORIGIN})
    second = login_console.cookies["penstock-console-8080"]
    assert len({before, first, second}) == 3
    for number in (before, first):
        assert _status_with(login_console, number) == 401


def test_a_token_from_before_the_login_is_worth_nothing_after_it(login_console: Visitor) -> None:
    before = login_console.token("/login")
    login_console.log_in("root")
    form = {"csrf": before, "name": "stolen", "consent": "yes"}
    assert login_console.post("/topics", data=form, headers={"origin": ORIGIN}).status_code == 403


def test_logging_out_ends_the_session_and_its_streams(secured: Broker) -> None:
    async def main() -> str:
        async with _Served(secured) as (client, app):
            await _log_in(client, "alice")
            async with client.stream("GET", "/topics.live") as live:
                lines = live.aiter_lines()
                while not (await anext(lines)).startswith("event: live"):
                    pass
                token = re.search(r'name="csrf" value="([0-9a-f]+)"', (await client.get("/topics/new")).text)
                assert token is not None
                await client.post("/logout", data={"csrf": token[1]}, headers={"origin": app.origin})
                rest = [line async for line in lines]
            assert (await client.get("/topics.json")).status_code == 401
            return "\n".join(rest)

    assert "event: over" in run(main())


@pytest.mark.parametrize("rules", [Rules(idle_seconds=0.5), Rules(life_seconds=0.5)])
def test_idleness_and_age_end_a_login(secured: Broker, rules: Rules) -> None:
    app = create_app(login_settings(secured), allowed_hosts(ADDRESS), rules=rules)
    with Visitor(app, base_url=ORIGIN) as visitor:
        visitor.log_in("alice")
        _until(lambda: visitor.get("/topics.live").status_code == 401)
        assert visitor.get("/topics.json").status_code == 401


def test_a_changed_password_ends_the_logins_of_its_user(secured: Broker) -> None:
    def set_password(password: str) -> None:
        async def main() -> None:
            async with Admin(secured.client_settings("root")) as admin:
                await admin.alter_user_scram_credentials([ScramUpsertion("carol", password)])

        run(main())

    set_password("first")
    app = create_app(login_settings(secured), allowed_hosts(ADDRESS), rules=Rules(check_seconds=0.3))
    with Visitor(app, base_url=ORIGIN) as visitor:
        visitor.log_in("carol", "first")
        assert visitor.get("/topics.json").status_code == 200
        set_password("second")
        _until(lambda: visitor.get("/topics.json").status_code == 401)
        assert visitor.log_in("carol", "first").status_code == 401
        assert visitor.log_in("carol", "second").status_code == 303


def test_guesses_are_limited_per_user_and_address_and_others_are_let_in(secured: Broker) -> None:
    with Visitor(create_app(login_settings(secured), allowed_hosts(ADDRESS)), base_url=ORIGIN) as visitor:
        assert [visitor.log_in("alice", "wrong").status_code for _ in range(6)] == [401] * 5 + [429]
        assert visitor.log_in("alice").status_code == 429
        assert visitor.log_in("root").status_code == 303


def test_guesses_are_counted_for_a_while_and_by_network() -> None:
    now = [0.0]
    attempts = Attempts(lambda: now[0])
    for number in range(5):
        attempts.begin("alice", f"2001:db8::{number}")
    with pytest.raises(TooManyTries):
        attempts.begin("alice", "2001:db8::99")
    attempts.begin("alice", "192.0.2.1")
    attempts.forgive("alice", "192.0.2.1")
    for number in range(30):
        attempts.begin(f"user{number}", "192.0.2.1")
    with pytest.raises(TooManyTries):
        attempts.begin("other", "192.0.2.1")
    now[0] = 301.0
    attempts.begin("alice", "2001:db8::99")


def test_a_user_has_a_bounded_number_of_logins(login_console: Visitor) -> None:
    numbers = []
    for _ in range(11):
        login_console.log_in("nobody")
        numbers.append(login_console.cookies["penstock-console-8080"])
    assert [_status_with(login_console, number) for number in (numbers[0], numbers[-1])] == [401, 200]


def test_a_console_without_login_says_what_a_broker_that_wants_a_user_needs(secured: Broker) -> None:
    settings = {"bootstrap_servers": secured.bootstrap_servers}
    with Visitor(create_app(settings, allowed_hosts(ADDRESS)), base_url=ORIGIN) as visitor:
        assert "--login" in visitor.get("/topics.json").json()["error"]


def test_only_a_sasl_listener_without_a_named_user_asks_for_logins() -> None:
    assert wants_login({"security_protocol": "SASL_SSL"})
    assert not wants_login({})
    assert not wants_login({"security_protocol": "SSL"})
    assert not wants_login({"security_protocol": "SASL_SSL", "sasl_username": "alice"})
    assert not wants_login({"security_protocol": "SASL_SSL", "sasl_oauthbearer_token_endpoint_url": "https://x"})


@pytest.mark.parametrize("has_tls", [False, True])
@pytest.mark.parametrize("has_login", [False, True])
def test_an_address_beyond_this_machine_wants_tls_and_a_login(has_tls: bool, has_login: bool) -> None:
    assert parse_listen("127.0.0.1:1", has_tls=has_tls, has_login=has_login) == ("127.0.0.1", 1)
    if has_tls and has_login:
        assert parse_listen("0.0.0.0:1", has_tls=True, has_login=True) == ("0.0.0.0", 1)
        return
    with pytest.raises(ListenError) as refused:
        parse_listen("0.0.0.0:1", has_tls=has_tls, has_login=has_login)
    assert ("--tls-cert" in str(refused.value), "--login" in str(refused.value)) == (not has_tls, not has_login)


def test_over_tls_the_cookie_is_bound_to_the_host() -> None:
    plain, secure = cookie_name("127.0.0.1:8080", False), cookie_name("console.example", True)
    assert cookie(secure, "x") == "__Host-penstock-console=x; Path=/; HttpOnly; SameSite=Lax; Secure"
    assert "Secure" not in cookie(plain, "x")
    assert plain != cookie_name("127.0.0.1:8081", False), "browsers send cookies to every port of a host"


@pytest.mark.timeout(300)
def test_in_a_browser_a_person_logs_in_over_tls_and_is_led_to_the_login_when_it_ends(
    browser: Browser, secured: Broker, tmp_path: Path
) -> None:
    paths = create_certificates(tmp_path / "tls", ["127.0.0.1"])
    line = [sys.executable, "-m", "penstock.cli.main", "console", "--listen", "127.0.0.1:0", "--until-stdin-closes"]
    line += ["--login", "--security-protocol", "SASL_PLAINTEXT", "--bootstrap", secured.bootstrap_servers]
    line += ["--tls-cert", str(paths.broker), "--idle-minutes", "0.1"]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        address = process.stdout.readline().removeprefix("Console: ").strip().rstrip("/")
        assert address.startswith("https://127.0.0.1:"), address
        context = browser.new_context(base_url=address, ignore_https_errors=True)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.goto("/topics")
        page.keyboard.type("alice")
        page.keyboard.press("Tab")
        page.keyboard.type("alice")
        page.keyboard.press("Enter")
        page.get_by_role("link", name="orders").wait_for()
        (kept,) = context.cookies()
        assert kept["name"] == f"__Host-penstock-console-{address.rpartition(':')[2]}"
        assert (kept["secure"], kept["httpOnly"]) == (True, True)
        page.get_by_role("heading", name="Log in to Penstock").wait_for()  # idle, and the live page notices
        context.close()
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


def _status_with(visitor: Visitor, number: str) -> int:
    visitor.cookies.clear()
    return int(visitor.get("/topics.json", headers={"cookie": f"penstock-console-8080={number}"}).status_code)


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class _Address:
    def __init__(self, port: int) -> None:
        self.origin = f"http://127.0.0.1:{port}"


class _Served:
    """A console on a socket, and a client of it: the test client reads a stream only when it has ended."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def __aenter__(self) -> tuple[Any, _Address]:
        import socket

        import httpx
        import uvicorn

        bound = socket.create_server(("127.0.0.1", 0))
        self._address = _Address(bound.getsockname()[1])
        app = create_app(login_settings(self._broker), allowed_hosts(self._address.origin.removeprefix("http://")))
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        self._task = asyncio.create_task(self._server.serve(sockets=[bound]))
        self._client = httpx.AsyncClient(base_url=self._address.origin, timeout=60, follow_redirects=True)
        while not self._server.started:  # noqa: ASYNC110 (uvicorn sets a flag, and has no event)
            await asyncio.sleep(0.01)
        return self._client, self._address

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()
        self._server.should_exit = True
        await self._task


async def _log_in(client: Any, user: str) -> None:
    found = re.search(r'name="csrf" value="([0-9a-f]+)"', (await client.get("/login")).text)
    assert found is not None
    form = {"csrf": found[1], "user": user, "password": user}
    origin = str(client.base_url).rstrip("/")
    assert (await client.post("/login", data=form, headers={"origin": origin})).status_code == 200
