"""Every fenced block of the README, the tutorials and the how-to guides is carried out by a test, or says why not."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.docs.blocks import DOCS, EXEMPT, PAGES, Block, blocks_of, carried_out, text_of

MODULES = [
    importlib.import_module(f"tests.docs.{path.stem}") for path in sorted(Path(__file__).parent.glob("test_*.py"))
]
TESTS = [item for module in MODULES for name, item in vars(module).items() if name.startswith("test_")]
CARRIED_OUT = {block for test in TESTS for block in carried_out(test)}


def test_the_pages_are_those_of_the_readme_the_tutorials_and_the_how_to_guides() -> None:
    assert {page.split("/")[0] for page in PAGES} == {"README.md", "tutorials", "how-to"}
    assert len(PAGES) == 1 + len(list((DOCS / "tutorials").glob("*.md"))) + len(list((DOCS / "how-to").glob("*.md")))


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_carried_out_or_exempt(page: str) -> None:
    assert [str(each) for each in blocks_of(page) if each not in CARRIED_OUT and each.exemption is None] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_block_has_a_language_and_an_end(page: str) -> None:
    assert [str(each) for each in blocks_of(page) if not each.language] == []
    fences = [line for line in text_of(page).splitlines() if line.lstrip().startswith("```")]
    assert len(fences) == 2 * len(blocks_of(page))


def test_every_exemption_is_needed() -> None:
    blocks = [each for page in PAGES for each in blocks_of(page)]
    for (page, opening), reason in EXEMPT.items():
        assert any(page in ("*", each.page) and each.text.startswith(opening) for each in blocks), opening
        assert len(reason) > 20


def test_a_block_is_found_with_its_heading() -> None:
    text = "```sh\nfirst\n```\n\n## One\n\n```\nsecond\n```\n"
    assert blocks_of("x.md", text) == [Block("x.md", "", "sh", "first\n"), Block("x.md", "One", "", "second\n")]


def test_an_installation_with_something_else_in_its_block_is_not_exempt() -> None:
    assert Block("x.md", "", "sh", "pip install penstock\n").exemption is not None
    assert Block("x.md", "", "sh", "pip install penstock\npenstock\n").exemption is None
