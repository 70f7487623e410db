from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
LINK = re.compile(r"\[[^\]]*\]\(([^)#]+)(#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    targets = [match.group(1) for match in LINK.finditer(page.read_text("utf-8"))]
    missing = [t for t in targets if not t.startswith("http") and not (page.parent / t).exists()]
    assert missing == []


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
