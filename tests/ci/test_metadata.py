"""What the package index shows: a README whose links lead somewhere, and addresses if they are known."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FORGE = {"GITHUB_SERVER_URL": "https://forge.example", "GITHUB_REPOSITORY": "team/penstock"}
LINK = re.compile(r"\]\(([^)]*)\)")


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("metadata_hook", ROOT / ".ci" / "metadata.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def metadata(environment: dict[str, str]) -> dict[str, Any]:
    """The metadata of the package that is built in an environment."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "metadata"],
        cwd=ROOT,
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    shown: dict[str, Any] = json.loads(done.stdout)
    return shown


def test_a_job_of_the_forge_makes_every_link_one_to_the_tag() -> None:
    shown = metadata(FORGE)
    links = LINK.findall(shown["readme"]["text"])
    beginning = ("https://forge.example/team/penstock/blob/v", "https://forge.example/team/penstock/raw/v")
    assert len(links) > 15
    assert [link for link in links if not link.startswith(beginning)] == []
    for link in links:
        path = re.sub(r"https://forge.example/team/penstock/\w+/v[^/]+/", "", link).partition("#")[0]
        assert (ROOT / path).exists()
    assert shown["urls"]["Source"] == "https://forge.example/team/penstock"


def test_a_build_elsewhere_has_no_link_that_leads_nowhere() -> None:
    shown = metadata({})
    assert LINK.findall(shown["readme"]["text"]) == []
    assert "urls" not in shown
    assert "every Kafka client, both group protocols" in shown["readme"]["text"]


def test_absolute_links_and_pictures_stay_what_they_are(hook: ModuleType) -> None:
    text = "[a](https://a.example) ![p](docs/p.png) [b](docs/b.md#c)"
    assert hook.readme_for_index(text, "https://r", "v1") == (
        "[a](https://a.example) ![p](https://r/raw/v1/docs/p.png) [b](https://r/blob/v1/docs/b.md#c)"
    )
    assert hook.readme_for_index(text, None, "v1") == "[a](https://a.example)  b"
