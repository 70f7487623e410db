"""How-to pages whose commands can be typed one after the other, done as they stand (but for ports and folders)."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml

from tests.docs.blocks import Blocks, carries_out
from tests.docs.reader import Reader, follow

ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs" / "how-to"


@pytest.mark.timeout(300)
@carries_out("how-to/stuck-group.md")
def test_why_a_group_is_stuck_is_found_out(reader: Reader, blocks: Blocks) -> None:
    follow(reader, blocks)


@pytest.mark.timeout(300)
@carries_out("how-to/replay.md")
def test_a_group_reads_yesterday_again(reader: Reader, blocks: Blocks) -> None:
    follow(reader, blocks)


@pytest.mark.timeout(300)
@carries_out("how-to/operate.md")
def test_a_broker_is_backed_up_and_restored(reader: Reader, blocks: Blocks) -> None:
    follow(reader, blocks)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@carries_out("how-to/watch.md")
def test_a_broker_is_watched(reader: Reader, blocks: Blocks) -> None:
    follow(reader, blocks)


@carries_out("how-to/configure.md")
def test_a_broker_is_configured(reader: Reader, blocks: Blocks) -> None:
    reader.places = {"/var/lib/penstock": str(reader.folder / "data"), "0.0.0.0:9092": f"0.0.0.0:{reader.port}"}
    follow(reader, blocks)
    assert "serves broker.example:9092" in reader.printed


@carries_out("how-to/cores.md")
def test_several_brokers_are_started_with_one_command(reader: Reader, blocks: Blocks) -> None:
    follow(reader, blocks)


def test_every_alert_has_a_section() -> None:
    rules = yaml.safe_load((ROOT / "packaging" / "monitoring" / "alerts.yml").read_text("utf-8"))
    alerts = [rule["alert"] for group in rules["groups"] for rule in group["rules"]]
    sections = re.findall(r"^## (\w+)$", (HOW_TO / "alerts.md").read_text("utf-8"), re.MULTILINE)
    assert sections == alerts
