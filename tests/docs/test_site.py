"""The site is refused where a link or an anchor leads nowhere, by the command that `make docs` runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(find_spec("mkdocs") is None, reason="MkDocs is not installed: make docs")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what the site is built from."""
    for name in ("docs", ".ci"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for page in [*ROOT.glob("*.md"), ROOT / "mkdocs.yml", ROOT / "src" / "penstock" / "__init__.py"]:
        copy = tmp_path / page.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(page, copy)
    return tmp_path


def build(project: Path) -> subprocess.CompletedProcess[str]:
    command = re.search(r"^docs:.*\n\t(.*mkdocs build.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert command is not None
    return subprocess.run(
        ["sh", "-c", command[1].replace("$(BIN)", str(Path(sys.executable).parent))],
        cwd=project,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("link", ["[x](operate.md#no-such-heading)", "[x](no-such-page.md)", "[x](#no-such-heading)"])
def test_a_link_that_leads_nowhere_is_an_error(link: str, project: Path) -> None:
    page = project / "docs" / "how-to" / "alerts.md"
    page.write_text(f"{page.read_text('utf-8')}\n{link}\n", "utf-8")
    done = build(project)
    assert done.returncode != 0
    assert "alerts.md" in done.stderr


def test_the_pages_as_they_are_make_a_site(project: Path) -> None:
    done = build(project)
    assert done.returncode == 0, done.stderr
    site = next((project / "build" / "site").iterdir())
    configs = (site / "reference" / "configs" / "index.html").read_text("utf-8")
    assert "<td><code>group.<wbr>initial.<wbr>rebalance.<wbr>delay.<wbr>ms</code></td>" in configs
    assert (site / "assets" / "site.css").is_file()
    assert not re.search(r'<[^>]*="[^"]*<wbr>', "".join(page.read_text("utf-8") for page in site.rglob("*.html")))
    diagrams = (site / "reference" / "states" / "index.html").read_text("utf-8")
    for script in Path(sys.prefix, "share", "penstock-docs").glob("mermaid-*.min.js"):
        assert f'<script src="../../assets/{script.name}"></script>' in diagrams
        assert (site / "assets" / script.name).is_file()
