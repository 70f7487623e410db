"""What the console refuses, whatever the page."""

from __future__ import annotations

import pytest

from penstock.console.app import create_app
from penstock.console.guard import allowed_hosts
from penstock.testing.broker import Broker
from tests.console.conftest import ORIGIN, Visitor

EVIL = "http://evil.example"


def test_a_host_that_is_not_served_is_refused(console: Visitor) -> None:
    refused = console.get("/topics", headers={"host": "evil.example:8080"})
    assert refused.status_code == 421
    assert "127.0.0.1:8080" in refused.text


@pytest.mark.parametrize("headers", [{}, {"origin": EVIL}, {"origin": "null"}, {"origin": ORIGIN + ".evil.example"}])
def test_a_change_from_another_origin_is_refused(console: Visitor, headers: dict[str, str]) -> None:
    form = {"csrf": console.token(), "name": "stolen", "consent": "yes"}
    assert console.post("/topics", data=form, headers=headers).status_code == 403
    assert "stolen" not in console.topic_names()


def test_under_the_name_of_a_proxy_cookies_and_changes_go_over_tls_only(broker: Broker) -> None:
    hosts = allowed_hosts("127.0.0.1:8080", ["console.example"])
    with Visitor(create_app(broker.client_settings(), hosts), base_url="https://console.example") as visitor:
        answer = visitor.get("/topics/new")
        assert answer.headers["set-cookie"].startswith("__Host-penstock-console=")
        assert "; Secure" in answer.headers["set-cookie"]
        form = {"csrf": visitor.token(), "name": "", "consent": "any"}
        answers = [
            visitor.post("/topics", data=form, headers={"origin": f"{scheme}://console.example"})
            for scheme in ("http", "https")
        ]
    assert [answer.status_code for answer in answers] == [403, 409]


def test_a_change_that_the_browser_calls_cross_site_is_refused(console: Visitor) -> None:
    form = {"csrf": console.token(), "name": "stolen", "consent": "yes"}
    headers = {"origin": ORIGIN, "sec-fetch-site": "cross-site"}
    assert console.post("/topics", data=form, headers=headers).status_code == 403


@pytest.mark.parametrize("token", ["", "0" * 64, "ÿ"])
def test_a_change_without_the_token_of_its_browser_is_refused(console: Visitor, token: str) -> None:
    form = {"csrf": token, "name": "stolen", "consent": "yes"}
    assert console.post("/topics", data=form, headers={"origin": ORIGIN}).status_code == 403
    assert "stolen" not in console.topic_names()


def test_a_token_of_one_browser_does_not_serve_another(console: Visitor) -> None:
    token = console.token()
    console.cookies.clear()
    form = {"csrf": token, "name": "stolen", "consent": "yes"}
    assert console.post("/topics", data=form, headers={"origin": ORIGIN}).status_code == 403


def test_cookies_of_other_programs_on_this_machine_do_not_hide_its_own(console: Visitor) -> None:
    token, number = console.token(), console.cookies["penstock-console-8080"]
    console.cookies.clear()
    cookies = f'other={{"a": "b;c"}}; penstock-console=stranger-stranger; penstock-console-8080={number}'
    form = {"csrf": token, "name": "", "consent": "any"}
    answer = console.post("/topics", data=form, headers={"origin": ORIGIN, "cookie": cookies})
    assert answer.status_code == 409, "the token is taken, and no such question is open"


def test_an_oversized_form_is_refused_unread(console: Visitor) -> None:
    refused = console.post("/topics", content=b"x" * ((4 << 20) + 1), headers={"origin": ORIGIN})
    assert refused.status_code == 413


@pytest.mark.parametrize("path", ["/", "/topics", "/topics.json", "/nowhere", "/static/console.css"])
def test_every_answer_forbids_foreign_scripts_and_frames(console: Visitor, path: str) -> None:
    policy = console.get(path).headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


def test_the_cookie_is_hidden_from_scripts_and_other_sites(console: Visitor) -> None:
    cookie = console.get("/topics").headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie


@pytest.mark.parametrize("path", ["/static/../app.py", "/static/%2e%2e/app.py", "/topics/..%2f..%2fetc", "/topics/a.b"])
def test_no_address_climbs_out_of_its_folder(console: Visitor, path: str) -> None:
    assert console.get(path).status_code in (400, 404)
