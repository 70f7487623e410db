"""Many tabs: a browser allows six connections per origin, so a tab that nobody looks at holds none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from penstock.testing.broker import Broker

if TYPE_CHECKING:
    from playwright.sync_api import Page

HIDE = """(hidden) => {
    Object.defineProperty(document, "hidden", {get: () => hidden, configurable: true});
    document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.mark.timeout(300)
def test_ten_tabs_are_open_and_the_one_in_front_is_live(
    browser_page: Page, broker: Broker, fresh: str, produce: Callable[..., None]
) -> None:
    broker.create_topic(fresh)
    tabs = [browser_page, *(browser_page.context.new_page() for _ in range(9))]
    for tab in tabs:
        tab.set_default_timeout(60_000)
        tab.goto(f"/topics/{fresh}/messages?from=live")
        tab.locator("#progress-text").filter(has_text="following").wait_for()
        tab.evaluate(HIDE, True)
    produce(fresh, b"while nobody looks")
    first = tabs[0]
    assert first.locator("#rows tr").count() == 0
    first.evaluate(HIDE, False)
    first.locator("#rows tr").filter(has_text="while nobody looks").wait_for()
    for tab in tabs[1:]:
        tab.close()
