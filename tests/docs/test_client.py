"""The tables of settings on the page about the client are what the code says."""

from __future__ import annotations

import dataclasses

import pytest

from tests.docs.client_page import PAGE, SECTIONS, meanings, own_fields, page


def test_the_tables_are_what_the_code_says() -> None:
    text = PAGE.read_text("utf-8")
    assert page(text) == text, "run python -m tests.docs.client_page"


@pytest.mark.parametrize("config", SECTIONS.values())
def test_every_setting_says_what_it_means(config: type) -> None:
    assert own_fields(config)
    assert sorted(own_fields(config) - meanings(config).keys()) == []


def test_the_page_has_every_setting() -> None:
    rows = {line.split("`")[1] for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")}
    fields = {field.name for config in SECTIONS.values() for field in dataclasses.fields(config)}
    assert fields <= rows
