"""The page about metrics says what the table says."""

from __future__ import annotations

from tests.docs.metrics_page import PAGE, page


def test_the_page_is_what_the_table_says() -> None:
    assert PAGE.read_text("utf-8") == page(), "run python -m tests.docs.metrics_page"
