"""How-to pages whose commands can be typed one after the other, done as they stand (but for ports)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.docs.reader import Reader, follow

ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs" / "how-to"


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    reader.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["stuck-group", "replay", "operate"])
def test_a_page_does_what_it_says(name: str, reader: Reader) -> None:
    assert follow(reader, (HOW_TO / f"{name}.md").read_text("utf-8")) >= 4


@pytest.mark.timeout(300)
def test_moving_without_a_stop(reader: Reader) -> None:
    page = (HOW_TO / "moving.md").read_text("utf-8")
    section = page[page.index("Here it is with two brokers") : page.index("### What is mirrored")]
    try:
        assert follow(reader, section) == 8
    finally:
        reader.run("kill $(cat target.pid) 2>/dev/null || true")


def test_every_alert_has_a_section() -> None:
    rules = yaml.safe_load((ROOT / "packaging" / "monitoring" / "alerts.yml").read_text("utf-8"))
    alerts = [rule["alert"] for group in rules["groups"] for rule in group["rules"]]
    sections = re.findall(r"^## (\w+)$", (HOW_TO / "alerts.md").read_text("utf-8"), re.MULTILINE)
    assert sections == alerts
