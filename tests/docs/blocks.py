"""The fenced blocks of the README, the tutorials and the how-to guides, and the tests that carry them out.

A test names the page whose blocks it carries out, or some parts of it, and is given them as `blocks`:

    @carries_out("how-to/replay.md")
    def test_a_group_reads_yesterday_again(reader: Reader, blocks: Blocks) -> None:
        follow(reader, blocks)

It fails if it leaves one of them undone (conftest.py). A block that no test carries out is in `EXEMPT`, with the
reason. test_blocks.py fails for a block that is neither.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = ["README.md", *sorted(f"{path.parent.name}/{path.name}" for path in DOCS.glob("[th]*/*.md"))]
_LINE = re.compile(r"^```(\w*)\n(.*?)^```$|^##+ ([^\n]+)$", re.S | re.M)

EXEMPT = {
    ("*", "pip install "): "what it installs is installed here; `make newcomer` and `make package` type it",
    ("how-to/deploy.md", "podman "): "needs a registry; `make container` builds and runs the image with buildah",
    ("how-to/deploy.md", "helm "): "needs Kubernetes; tests/packaging/test_helm.py renders the chart with these values",
}
"""Blocks that no test carries out: their page, or any, and their opening words, with the reason."""


@dataclass(frozen=True)
class Block:
    page: str
    heading: str
    """The section that the block is in; empty before the first one."""
    language: str
    text: str

    @property
    def exemption(self) -> str | None:
        for (page, opening), reason in EXEMPT.items():
            if page in ("*", self.page) and self.text.startswith(opening) and len(commands(self.text)) == 1:
                return reason
        return None

    def is_in(self, part: str) -> bool:
        return self.heading == part or self.text.startswith(part)

    def __str__(self) -> str:
        return f"{self.page}: {self.heading or 'introduction'}: {self.text.splitlines()[0]}"


@dataclass
class Blocks:
    """Blocks to be carried out, and those that were."""

    page: str
    all: Sequence[Block]
    done: list[Block] = field(default_factory=list)

    def __iter__(self) -> Iterator[Block]:
        return iter(self.all)

    def left(self) -> list[str]:
        return [str(block) for block in self.all if block not in self.done]


def text_of(page: str) -> str:
    return (ROOT / page if page == "README.md" else DOCS / page).read_text("utf-8")


def blocks_of(page: str, text: str | None = None) -> list[Block]:
    found, heading = [], ""
    for language, block, title in _LINE.findall(text_of(page) if text is None else text):
        if title:
            heading = title
        else:
            found.append(Block(page, heading, language, block))
    return found


def chosen(page: str, parts: Sequence[str] = (), skip: Sequence[str] = ()) -> list[Block]:
    """The blocks of a page, or of some parts of it, without those that nobody carries out.

    A part is a section, by its heading, or a block, by its opening words.
    """
    blocks = [each for each in blocks_of(page) if each.exemption is None]
    for part in (*parts, *skip):
        assert any(each.is_in(part) for each in blocks), f"{page} has no blocks at '{part}'"
    wanted = [each for each in blocks if not parts or any(map(each.is_in, parts))]
    return [each for each in wanted if not any(map(each.is_in, skip))]


def commands(text: str) -> list[str]:
    """The commands of a shell block, each with the lines on which it is continued, without comments."""
    joined = re.sub(r"\\\n\s*", "", text)
    lines = (re.sub(r"(^|\s+)# .*$", "", line).strip() for line in joined.splitlines())
    return [line for line in lines if line]


def carries_out(page: str, *parts: str, skip: Sequence[str] = (), each: bool = False) -> Callable[[Any], Any]:
    """Give a test the blocks of a page, of some parts of it, or of all but some; all at once or `each` for itself."""
    blocks = chosen(page, parts, skip)
    assert blocks, f"{page} has no such blocks"
    sets = [[block] for block in blocks] if each else [blocks]
    name = Path(page).stem
    ids = [given[0].text.splitlines()[0].removeprefix("# ") if each else name for given in sets]
    return pytest.mark.parametrize("blocks", [(page, given) for given in sets], ids=ids, indirect=True)


def carried_out(test: object) -> list[Block]:
    """The blocks that a test is given."""
    return [
        block
        for mark in getattr(test, "pytestmark", [])
        if mark.name == "parametrize" and mark.args[0] == "blocks"
        for _, given in mark.args[1]
        for block in given
    ]
