"""A consent carries out what was shown, once, for the browser that was asked."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from penstock.console.questions import Change, Form, Questions
from penstock.console.session import Session
from penstock.testing.broker import Broker
from tests.console.conftest import ORIGIN, Visitor


class Deed:
    """Something to be done once; the first attempts may fail."""

    def __init__(self, failures: int = 0) -> None:
        self.done: list[str] = []
        self.failures = failures

    async def perform(self, form: Form) -> str:
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise ValueError("not now")
        self.done.append(form.get("password", ""))
        return f"done {len(self.done)}"

    def change(self) -> Change:
        return Change("Do it?", "penstock do", "/", self.perform)


@pytest.fixture
def session() -> Session:
    return Session({})


async def test_a_doubled_consent_is_carried_out_once_and_both_are_told(session: Session) -> None:
    deed, questions = Deed(), Questions()
    question = questions.find(questions.ask("b", "/p", session, deed.change()), "b", "/p", session)
    assert question is not None
    told = await asyncio.gather(question.consent({"password": "x"}), question.consent({"password": "y"}))
    assert [*told, await question.consent({})] == ["done 1"] * 3
    assert deed.done == ["x"]


async def test_what_has_failed_may_be_tried_again(session: Session) -> None:
    deed, questions = Deed(failures=1), Questions()
    question = questions.find(questions.ask("b", "/p", session, deed.change()), "b", "/p", session)
    assert question is not None
    with pytest.raises(ValueError, match="not now"):
        await question.consent({})
    assert await question.consent({}) == "done 1"


def test_a_question_is_for_one_browser_one_address_and_one_login_and_not_for_ever(session: Session) -> None:
    now = 0.0
    questions = Questions(lambda: now)
    number = questions.ask("b", "/p", session, Deed().change())
    assert questions.find(number, "b", "/p", session) is not None
    for browser, path, login in (("c", "/p", session), ("b", "/q", session), ("b", "/p", Session({}))):
        assert questions.find(number, browser, path, login) is None
    now = 3600.0
    assert questions.find(number, "b", "/p", session) is None


def test_a_reset_does_what_was_previewed_however_often_its_button_is_pressed(
    console: Visitor, broker: Broker, fresh: str, produce: Callable[..., None], with_admin: Callable[..., Any]
) -> None:
    broker.create_topic(fresh)
    produce(fresh, *[b"x"] * 30)
    with_admin(lambda admin: admin.alter_group_offsets(fresh, {(fresh, 0): 25}))
    asked = console.submit(f"/groups/{fresh}/reset", consent=False, topic=fresh, kind="shift", value="-10")
    found = re.search(r'name="consent" value="([^"]+)"', asked.text)
    assert found is not None
    form = {"csrf": console.token(), "consent": found[1]}
    with ThreadPoolExecutor(3) as pool:
        answers = [
            pool.submit(console.post, f"/groups/{fresh}/reset", data=form, headers={"origin": ORIGIN}) for _ in range(3)
        ]
    assert [answer.result().status_code for answer in answers] == [200] * 3
    assert with_admin(lambda admin: admin.list_group_offsets(fresh))[fresh, 0].offset == 15


def test_the_end_is_what_it_was_when_it_was_shown(
    console: Visitor, broker: Broker, fresh: str, produce: Callable[..., None], with_admin: Callable[..., Any]
) -> None:
    broker.create_topic(fresh)
    produce(fresh, b"x")
    asked = console.submit(f"/groups/{fresh}/reset", consent=False, topic=fresh, kind="latest")
    found = re.search(r'name="consent" value="([^"]+)"', asked.text)
    assert found is not None
    produce(fresh, b"x", b"x")
    form = {"csrf": console.token(), "consent": found[1]}
    assert console.post(f"/groups/{fresh}/reset", data=form, headers={"origin": ORIGIN}).status_code == 200
    assert with_admin(lambda admin: admin.list_group_offsets(fresh))[fresh, 0].offset == 1


def test_a_consent_to_nothing_that_was_asked_is_refused_with_a_way_back(console: Visitor, fresh: str) -> None:
    form = {"csrf": console.token(), "consent": "made-up", "name": fresh}
    headers = {"origin": ORIGIN, "referer": f"{ORIGIN}/topics?q=a"}
    answer = console.post("/topics", data=form, headers=headers)
    assert answer.status_code == 409
    assert 'href="/topics?q=a"' in answer.text
    elsewhere = console.post("/topics", data=form, headers={"origin": ORIGIN, "referer": "http://evil.example/x"})
    assert "evil" not in elsewhere.text
    assert fresh not in console.topic_names()
