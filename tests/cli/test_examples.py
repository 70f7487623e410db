"""Examples come with an installation, not only with the repository."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.cli.conftest import Run

ROOT = Path(__file__).parents[2]


def test_an_example_is_copied_with_its_page(penstock: Run, tmp_path: Path) -> None:
    assert "queues" in penstock("examples").stdout
    copied = penstock("examples", "queues", "--to", str(tmp_path / "mine"))
    assert copied.returncode == 0
    assert (tmp_path / "mine" / "README.md").is_file()
    assert (tmp_path / "mine" / "emails.py").is_file()


def test_a_folder_that_exists_is_left_alone(penstock: Run, tmp_path: Path) -> None:
    (tmp_path / "client").mkdir()
    refused = penstock("examples", "client")
    assert refused.returncode == 1
    assert "exists already" in refused.stderr
    assert not list((tmp_path / "client").iterdir())


def test_a_misspelt_example_is_answered_with_the_nearest(penstock: Run) -> None:
    refused = penstock("examples", "queue")
    assert refused.returncode == 1
    assert "penstock examples queues" in refused.stderr


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the working tree, unpacked."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


def test_a_wheel_works_without_the_repository(unpacked: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(unpacked)}

    def penstock(*arguments: str) -> str:
        code = "import sys; from penstock.cli.main import run; sys.exit(run(sys.argv[1:]))"
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "queues" in penstock("examples")
    penstock("examples", "queues")
    ran = subprocess.run(
        [sys.executable, "queues/thumbnails.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ran.returncode == 0, ran.stderr
