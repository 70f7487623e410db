"""The page about limits says what the code enforces."""

from __future__ import annotations

from tests.docs.limits_page import PAGE, page, quantity


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text("utf-8") == page(), "run python -m tests.docs.limits_page"


def test_quantities_are_shown_as_people_read_them() -> None:
    assert [quantity(1048588, "bytes"), quantity(64 << 20, "bytes"), quantity(45_000, "ms"), quantity(100_000, "")] == [
        "1,048,588 bytes",
        "64 MiB",
        "45 s",
        "100,000",
    ]
