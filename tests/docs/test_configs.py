"""The page about configs says what the tables say."""

from __future__ import annotations

from tests.docs.configs_page import PAGE, page


def test_the_page_is_what_the_tables_say() -> None:
    assert PAGE.read_text("utf-8") == page(), "run python -m tests.docs.configs_page"
