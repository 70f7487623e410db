"""The console as a person uses it: in a real browser, with a keyboard, on a narrow screen, while things move."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from penstock.testing.broker import Broker

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.timeout(300)
MARK = "(element) => { element.seen = true; }"
WAS_MARKED = "(element) => element.seen === true"


def test_the_browser_leaves_the_thread_of_the_tests_to_their_own_event_loops(browser_page: Page) -> None:
    browser_page.goto("/")

    async def heading() -> str:
        return browser_page.locator("h1").first.inner_text()

    assert asyncio.run(heading()) == "Overview"


def test_a_live_update_keeps_the_scroll_position_the_focus_and_the_elements_that_stay(
    browser_page: Page, broker: Broker, fresh: str, produce: Callable[..., None]
) -> None:
    broker.create_topic(fresh)
    browser_page.set_viewport_size({"width": 400, "height": 800})
    browser_page.goto(f"/topics?q={fresh}")
    table, row = browser_page.locator(".scroll"), browser_page.locator(f"#topic-{fresh}")
    table.evaluate("(element) => { element.scrollLeft = 200; }")
    assert table.evaluate("(element) => element.scrollLeft") == 200
    link = browser_page.locator(f"#to-{fresh}")
    link.evaluate("(element) => element.focus({preventScroll: true})")
    link.evaluate(MARK)
    produce(fresh, *[b"x"] * 7)
    row.locator("td").nth(3).filter(has_text="7").wait_for()
    assert table.evaluate("(element) => element.scrollLeft") == 200
    assert link.evaluate(WAS_MARKED)
    assert browser_page.evaluate("document.activeElement.id") == f"to-{fresh}"


def test_a_focused_link_moves_along_when_its_row_does(
    browser_page: Page, broker: Broker, fresh: str, produce: Callable[..., None], with_admin: Callable[..., Any]
) -> None:
    broker.create_topic(fresh)
    for group, offset in ((f"{fresh}-a", 1), (f"{fresh}-b", 0)):
        produce(fresh, b"x")
        with_admin(lambda admin, group=group, offset=offset: admin.alter_group_offsets(group, {(fresh, 0): offset}))
    browser_page.goto(f"/groups?q={fresh}")
    rows = browser_page.locator("tbody tr")
    rows.nth(0).filter(has_text=f"{fresh}-b").wait_for()
    browser_page.locator(f"#to-{fresh}-b").focus()
    with_admin(lambda admin: admin.alter_group_offsets(f"{fresh}-b", {(fresh, 0): 2}))
    rows.nth(0).filter(has_text=f"{fresh}-a").wait_for()
    assert browser_page.evaluate("document.activeElement.id") == f"to-{fresh}-b"
    browser_page.keyboard.press("Enter")
    browser_page.get_by_role("heading", name=f"{fresh}-b").wait_for()


def test_text_that_is_selected_stays_until_the_selection_is_given_up(
    browser_page: Page, broker: Broker, fresh: str, produce: Callable[..., None]
) -> None:
    broker.create_topic(fresh)
    browser_page.goto(f"/topics/{fresh}")
    records = browser_page.locator(".facts dd").nth(1)
    browser_page.locator("#pulse.on").wait_for()
    records.evaluate("(element) => document.getSelection().selectAllChildren(element)")
    produce(fresh, b"x")
    browser_page.locator("#pulse[title*='selected']").wait_for()
    assert browser_page.evaluate("document.getSelection().toString()") == "0"
    browser_page.evaluate("document.getSelection().removeAllRanges()")
    records.filter(has_text="1").wait_for()


def test_a_page_that_cannot_be_read_says_so_and_goes_on_by_itself(browser: Browser, console_address: str) -> None:
    context = browser.new_context(base_url=console_address)
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.route("**/topics.live*", lambda route: route.fulfill(status=503))
    page.goto("/topics")
    page.locator("#pulse.lost").filter(has_text="not live").wait_for()
    page.locator("#lost").filter(has_text="Not updated since").wait_for()
    page.unroute("**/topics.live*")
    page.locator("#pulse.on").filter(has_text="live").wait_for()
    page.locator("#lost").wait_for(state="hidden")
    context.close()
