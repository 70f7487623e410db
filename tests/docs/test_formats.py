"""The page about formats names the APIs that are served, and every file that a broker leaves in its folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.adoption.plan import SET_ASIDE
from penstock.adoption.release import RELEASED_CATALOG
from penstock.broker.cluster_folder import CLUSTER_FILE, EXPORT_FILE, KAFKAS_FILES
from penstock.certificates import BROKER_FILE, CA_FILE, CA_KEY_FILE
from penstock.client.sync import Consumer, Producer
from penstock.log.checkpoints import CLEANER_OFFSETS, LOG_START_OFFSETS, RECOVERY_POINTS
from penstock.log.files import DELETED_SUFFIX
from penstock.log.folder import DELETED_FOLDER_SUFFIX, STRAY_FOLDER_SUFFIX
from penstock.log.recovery import SNAPSHOT_SUFFIX
from penstock.log.segment import SUFFIXES
from penstock.storage.checkpoint import BOOT_ID, CLEAN_SHUTDOWN, LEADER_EPOCH, LOG_ENDS
from penstock.storage.objects.key_space import KINDS
from penstock.testing import Broker
from tests.docs.formats_page import PAGE, page

TEXT = PAGE.read_text("utf-8")
NAMED = [name for cell in re.findall(r"^\| (`.*?) \|", TEXT, re.MULTILINE) for name in re.findall(r"`([^`]+)`", cell)]
PLACEHOLDERS = {
    "TOPIC": r"[\w.-]+",
    "PARTITION": r"\d+",
    "NODE-ID": r"\d+",
    "BASE": r"\d{20}",
    "OFFSET": r"\d{20}",
    "USER": r"\w+",
    "ID": r"\w+",
}


def test_the_apis_are_those_that_are_served() -> None:
    assert page(TEXT) == TEXT, "run python -m tests.docs.formats_page"


@pytest.mark.parametrize(
    "name",
    [
        *(CLEANER_OFFSETS, LOG_START_OFFSETS, RECOVERY_POINTS),
        *(BOOT_ID, CLEAN_SHUTDOWN, LEADER_EPOCH, LOG_ENDS),
        *(CLUSTER_FILE, EXPORT_FILE, *KAFKAS_FILES, SET_ASIDE, RELEASED_CATALOG),
        *(CA_FILE, CA_KEY_FILE, BROKER_FILE),
        *(DELETED_FOLDER_SUFFIX, STRAY_FOLDER_SUFFIX, DELETED_SUFFIX, SNAPSHOT_SUFFIX, *SUFFIXES),
        *(f"/{kind}/" for kind in KINDS),
    ],
)
def test_a_name_that_the_code_has_is_on_the_page(name: str) -> None:
    assert any(name in each for each in NAMED)


def test_every_file_that_a_broker_leaves_is_on_the_page(tmp_path: Path) -> None:
    with Broker({"num.partitions": 1}, data=tmp_path) as broker:
        broker.create_topic("orders")
        servers = broker.bootstrap_servers
        with Producer(bootstrap_servers=servers, transactional_id="shop") as producer, producer.transaction():
            producer.send("orders", b"one")
        with Consumer(bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["orders"])
            while not consumer.poll(100):
                pass
    known = [re.compile(pattern(name)) for name in NAMED]
    left = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert len(left) > 10
    assert [path for path in left if not any(each.fullmatch(path.name) for each in known)] == []


def pattern(name: str) -> str:
    """A name of the page as a regular expression: words in capitals stand for something."""
    parts = re.split("(" + "|".join(sorted(PLACEHOLDERS, key=len, reverse=True)) + ")", name.rstrip("/"))
    return "".join(PLACEHOLDERS.get(part, re.escape(part)) for part in parts)
