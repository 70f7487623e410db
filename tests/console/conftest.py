"""A console in front of a real broker: in process for requests, as a process of its own for a browser.

Broker, console and browser are started once per worker of pytest and shared, so a test names topics and groups of its
own (`fresh`) and expects those of other tests beside them.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

pytest.importorskip("starlette")
pytest.importorskip("jinja2")
pytest.importorskip("uvicorn")

from starlette.testclient import TestClient

from penstock.client.admin import Admin
from penstock.client.producer import Producer
from penstock.console.app import create_app
from penstock.console.guard import allowed_hosts
from penstock.testing.broker import Broker
from tests.console.browser import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

T = TypeVar("T")
ADDRESS = "127.0.0.1:8080"
ORIGIN = f"http://{ADDRESS}"
CHROMIUM = next((path for path in ("/usr/bin/chromium", "/usr/bin/chromium-browser") if os.path.exists(path)), None)
_numbers = itertools.count(1)


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 60))


def until(look: Callable[[], T | None], what: str) -> T:
    """What `look` finds once there is something; the console shows metrics that are up to two seconds old."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        found = look()
        if found is not None:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what} did not come")


class Visitor(TestClient):  # type: ignore[misc]  # not installed everywhere, and so without types
    """A browser that fills in forms: it sends its Origin, and the token of the page that it has seen."""

    def token(self, path: str = "/topics/new") -> str:
        found = re.search(r'name="csrf" value="([0-9a-f]+)"', self.get(path).text)
        assert found is not None
        return found[1]

    def log_in(self, user: str, password: str | None = None, **fields: str) -> Any:
        """Log in, with the user's name for a password if none is given."""
        self.cookies.clear()
        form = {"csrf": self.token("/login"), "user": user, "password": user if password is None else password}
        return self.post("/login", data={**form, **fields}, headers={"origin": ORIGIN}, follow_redirects=False)

    def submit(self, path: str, consent: bool = True, secret: str = "", **fields: Any) -> Any:
        """Fill in a form, and consent to what is asked then; the answer to the first of the two that is refused."""
        form = {"csrf": self.token(), **{name: str(value) for name, value in fields.items()}}
        asked = self.post(path, data=form, headers={"origin": ORIGIN})
        found = re.search(r'name="consent" value="([^"]+)"', asked.text)
        if not consent or found is None:
            return asked
        answer = {"csrf": form["csrf"], "consent": found[1], **({"password": secret} if secret else {})}
        return self.post(path, data=answer, headers={"origin": ORIGIN})

    def topic_names(self) -> list[str]:
        return [row["name"] for row in self.get("/topics.json").json()["topics"]]


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with Broker({"penstock.metrics.listen": f"127.0.0.1:{free_port()}"}) as started:
        yield started


@pytest.fixture(scope="session")
def shared_console(broker: Broker) -> Iterator[Visitor]:
    app = create_app(broker.client_settings(), allowed_hosts(ADDRESS))
    with Visitor(app, base_url=ORIGIN) as visitor:
        yield visitor


@pytest.fixture
def console(shared_console: Visitor) -> Visitor:
    """A browser that has not been here before."""
    shared_console.cookies.clear()
    return shared_console


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


USERS = {name: name for name in ("root", "alice", "nobody")}


@pytest.fixture(scope="session")
def secured() -> Iterator[Broker]:
    """A broker that wants a user: root may do everything, alice something, nobody nothing. Names are passwords."""
    rules = [f"alice {what}" for what in ("all topic orders", "all group billing", "describe group mail")]
    security: dict[str, Any] = {"users": USERS, "acls": rules, "super_users": ["root"]}
    with Broker({"penstock.metrics.listen": f"127.0.0.1:{free_port()}"}, **security) as started:
        for name in ("orders", "secrets"):
            started.create_topic(name)
        yield started


def login_settings(broker: Broker) -> dict[str, str]:
    """The settings of a console that asks for users."""
    return {
        name: value
        for name, value in broker.client_settings("root").items()
        if name not in ("sasl_username", "sasl_password")
    }


@pytest.fixture(scope="session")
def shared_login_console(secured: Broker) -> Iterator[Visitor]:
    with Visitor(create_app(login_settings(secured), allowed_hosts(ADDRESS)), base_url=ORIGIN) as visitor:
        yield visitor


@pytest.fixture
def login_console(shared_login_console: Visitor) -> Visitor:
    """A browser that has not been here before, in front of a console that asks for users."""
    shared_login_console.cookies.clear()
    return shared_login_console


@pytest.fixture
def fresh() -> str:
    """A name that no other test uses."""
    return f"t{next(_numbers)}"


@pytest.fixture
def with_admin(broker: Broker) -> Callable[[Callable[[Admin], Awaitable[Any]]], Any]:
    """Run something with an admin client of the same broker: what pages are compared with."""

    def call(work: Callable[[Admin], Awaitable[T]]) -> T:
        async def main() -> T:
            async with Admin(broker.client_settings()) as admin:
                return await work(admin)

        return run(main())

    return call


@pytest.fixture
def produce(broker: Broker) -> Callable[..., None]:
    def call(topic: str, *values: bytes | None, key: bytes | None = None, partition: int | None = None) -> None:
        async def main() -> None:
            async with Producer(broker.client_settings()) as producer:
                for value in values:
                    await producer.send(topic, value, key=key, partition=partition)
                await producer.flush()

        run(main())

    return call


@pytest.fixture(scope="session")
def console_address(broker: Broker) -> Iterator[str]:
    """The address of a console that runs as a process."""
    line = [sys.executable, "-m", "penstock.cli.main", "console", "--listen", "127.0.0.1:0", "--until-stdin-closes"]
    line += ["--bootstrap", broker.bootstrap_servers]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        said = process.stdout.readline()
        assert said.startswith("Console: http://127.0.0.1:"), said
        yield said.removeprefix("Console: ").strip().rstrip("/")
        process.stdin.close()
        process.wait(30)


@contextmanager
def served(settings: Mapping[str, object], **options: Any) -> Iterator[str]:
    """The address of a console that listens, in a thread of this process."""
    import uvicorn

    bound = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{bound.getsockname()[1]}"
    app = create_app(settings, allowed_hosts(address), **options)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    yield f"http://{address}"
    server.should_exit = True
    thread.join(30)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's chromium."""
    if CHROMIUM is None:
        missing = "chromium is not installed: apt-get install chromium"
        if os.environ.get("PENSTOCK_TEST_BROWSER") == "required":
            pytest.fail(missing)
        pytest.skip(missing)
    pytest.importorskip("playwright")
    with chromium(CHROMIUM) as started:
        yield started


@contextmanager
def watched_page(browser: Browser, address: str) -> Iterator[Page]:
    """A page of Debian's chromium that fails its test on errors in its console and on requests to other origins."""
    complaints: list[str] = []
    context = browser.new_context(base_url=address, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda made: None if made.url.startswith(f"{address}/") else complaints.append(made.url))
    yield page
    context.close()
    assert complaints == []


@pytest.fixture
def browser_page(browser: Browser, console_address: str) -> Iterator[Page]:
    """A watched page in front of the console that runs as a process."""
    with watched_page(browser, console_address) as page:
        yield page
