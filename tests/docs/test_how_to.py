"""How-to pages whose commands can be typed one after the other, done as they stand (but for ports and folders)."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml

from tests.docs.blocks import Block, Blocks, carries_out
from tests.docs.reader import Reader, follow

ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs" / "how-to"
PACKAGING = ROOT / "packaging"


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


class Installer(Reader):
    """Somebody who installs a service: what the page says stands in the unit too."""

    def other(self, block: Block) -> bool:
        unit = (PACKAGING / "systemd" / "penstock.service").read_text("utf-8")
        if block.heading != "As a service of systemd":
            return False
        for line in block.text.splitlines():
            assert f"#   {line}\n" in unit
        return True


@carries_out("how-to/deploy.md")
def test_completion_and_manual_are_written_and_the_unit_is_installed_as_it_says(tmp_path: Path, blocks: Blocks) -> None:
    reader = Installer(tmp_path)
    follow(reader, blocks)
    assert "complete" in (tmp_path / "penstock.bash").read_text()
    assert (tmp_path / "penstock.1").read_text().startswith(".TH PENSTOCK")


def test_the_page_about_containers_names_what_the_image_has() -> None:
    page = (HOW_TO / "deploy.md").read_text("utf-8")
    tools = (PACKAGING / "container" / "kafka-tool").read_text("utf-8")
    for name in (*re.findall(r'^    "(kafka-[a-z-]+)":', tools, re.MULTILINE), "cub kafka-ready", "nc -z"):
        assert f"`{name}`" in page
    entrypoint = (PACKAGING / "container" / "entrypoint").read_text("utf-8")
    for name in re.findall(r"^not_obeyed (KAFKA_\w+)", entrypoint, re.MULTILINE):
        assert name == "KAFKA_ADVERTISED_HOST_NAME" or f"`{name}`" in page


def test_every_alert_has_a_section() -> None:
    rules = yaml.safe_load((ROOT / "packaging" / "monitoring" / "alerts.yml").read_text("utf-8"))
    alerts = [rule["alert"] for group in rules["groups"] for rule in group["rules"]]
    sections = re.findall(r"^## (\w+)$", (HOW_TO / "alerts.md").read_text("utf-8"), re.MULTILINE)
    assert sections == alerts
