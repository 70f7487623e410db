from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
CODE = re.compile(r"^ *```.*?^ *```$|``.+?``|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def links(page: Path) -> list[tuple[str, str]]:
    """The targets inside the repository, each with its anchor, of a page."""
    found = LINK.findall(CODE.sub("", page.read_text("utf-8")))
    return [(target, anchor) for target, anchor in found if not re.match(r"[a-z]+:", target)]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    shown = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in shown}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert [target for target, _ in links(page) if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_anchor_is_a_heading(page: Path) -> None:
    aimed = [(page.parent / target if target else page, anchor) for target, anchor in links(page) if anchor]
    assert [(at.name, anchor) for at, anchor in aimed if at.suffix == ".md" and anchor not in anchors(at)] == []


def test_every_page_is_in_the_index() -> None:
    folder = ROOT / "docs"
    index = (folder / "README.md").read_text("utf-8")
    pages = [str(page.relative_to(folder)) for page in folder.glob("*/*.md")]
    assert [name for name in pages if f"({name})" not in index] == []


def test_every_decision_is_in_the_list() -> None:
    folder = ROOT / "docs" / "explanation" / "decisions"
    index = (folder / "README.md").read_text("utf-8")
    assert [
        page.name for page in folder.glob("*.md") if page.name != "README.md" and f"({page.name})" not in index
    ] == []


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    for page in PAGES:
        named = set(re.findall(r"`make ([a-z-]+)`", page.read_text("utf-8")))
        assert named <= targets, f"{page.name} names {named - targets}"
