"""The sites of several versions side by side, with a list from which the pages make their selector."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".ci" / "publish-site"


def publish(tmp_path: Path, version: str) -> Path:
    site = tmp_path / "build" / version
    site.mkdir(parents=True)
    (site / "index.html").write_text(f"the pages of {version}")
    subprocess.run([SCRIPT, site, tmp_path / "pages"], check=True, timeout=60)
    return tmp_path / "pages"


def listed(pages: Path) -> list[tuple[str, list[str]]]:
    return [(each["version"], each["aliases"]) for each in json.loads((pages / "versions.json").read_text())]


def test_the_first_version_is_the_latest(tmp_path: Path) -> None:
    pages = publish(tmp_path, "0.1.0")
    assert listed(pages) == [("0.1.0", ["latest"])]
    assert (pages / "latest" / "index.html").read_text() == "the pages of 0.1.0"
    assert "latest/" in (pages / "index.html").read_text()


def test_the_newest_release_is_the_latest_in_whatever_order_they_are_published(tmp_path: Path) -> None:
    for version in ("0.9.0", "0.10.0", "0.11.0rc1", "0.9.1"):
        pages = publish(tmp_path, version)
    assert listed(pages) == [("0.11.0rc1", []), ("0.10.0", ["latest"]), ("0.9.1", []), ("0.9.0", [])]
    assert (pages / "latest" / "index.html").read_text() == "the pages of 0.10.0"
    assert (pages / "0.9.0" / "index.html").read_text() == "the pages of 0.9.0"


def test_a_version_that_is_published_again_is_replaced(tmp_path: Path) -> None:
    pages = publish(tmp_path, "0.1.0")
    (pages / "0.1.0" / "old.html").touch()
    (tmp_path / "build" / "0.1.0").rename(tmp_path / "before")
    publish(tmp_path, "0.1.0")
    assert [path.name for path in (pages / "0.1.0").iterdir()] == ["index.html"]


@pytest.mark.parametrize("name", ["latest", "0.1.0"])
def test_what_is_not_the_site_of_a_version_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    done = subprocess.run([SCRIPT, tmp_path / name, tmp_path / "pages"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "is not the site of a version" in done.stderr


def test_the_release_publishes_the_site_that_was_built() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"))["jobs"]
    commands = "\n".join(step.get("run", "") for step in jobs["site"]["steps"])
    assert ".ci/publish-site" in commands
    assert any(step.get("run") == "make docs" for step in jobs["build"]["steps"])
