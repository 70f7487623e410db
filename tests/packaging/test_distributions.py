"""The wheel and the source distribution, used as somebody does who has never seen the repository."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.peers import free_port

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
WAIT_SECONDS = 300


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "KAFKA_", "PYTHON"))}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that PENSTOCK_DIST names, so that what is published is what was tested; or one that is built here."""
    if made := os.environ.get("PENSTOCK_DIST"):
        return (ROOT / made).absolute()
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", folder, cwd=ROOT)
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    return next(dist.glob("*.whl"))


@pytest.fixture(scope="module")
def source(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, unpacked."""
    folder = tmp_path_factory.mktemp("source")
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    return next(folder.iterdir())


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """The programs of an environment with nothing but pip."""
    run(sys.executable, "-m", "venv", tmp_path / "empty", cwd=tmp_path)
    return tmp_path / "empty" / "bin"


def serves_and_stops(command: list[str | Path], cwd: Path, penstock: list[str | Path], **environment: str) -> None:
    """The command runs a broker that stores a record, returns it, and stops cleanly on SIGTERM."""
    address = f"127.0.0.1:{free_port()}"
    words = [str(word) for word in [*command, "--listen", address, "--data", "data"]]
    with subprocess.Popen(
        words, cwd=cwd, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True
    ) as broker:
        try:
            assert broker.stdout is not None
            assert f"serves {address}" in broker.stdout.readline()
            reach = {**environment, "PENSTOCK_BOOTSTRAP": address}
            run(*penstock, "topic", "create", "greetings", cwd=cwd, **reach)
            run(*penstock, "produce", "greetings", "hello", cwd=cwd, **reach)
            assert run(*penstock, "consume", "greetings", "--from", "beginning", "--exit-at-end", cwd=cwd, **reach) == (
                "hello\n"
            )
            broker.send_signal(signal.SIGTERM)
            assert broker.wait(WAIT_SECONDS) == 0
        finally:
            broker.kill()
    assert (cwd / "data" / ".kafka_cleanshutdown").exists()


def test_the_wheel_is_all_that_an_empty_environment_needs(wheel: Path, empty: Path, tmp_path: Path) -> None:
    run(empty / "pip", "install", "--quiet", wheel, cwd=tmp_path)
    assert run(empty / "penstock", "--version", cwd=tmp_path).startswith("penstock ")
    assert ".TH PENSTOCK 1" in run(empty / "penstock", "man", cwd=tmp_path)
    serves_and_stops([empty / "penstock", "serve"], tmp_path, [empty / "penstock"])


def test_the_examples_come_with_the_wheel_and_run(wheel: Path, empty: Path, tmp_path: Path) -> None:
    run(empty / "pip", "install", "--quiet", wheel, cwd=tmp_path)
    for name in ("client", "queues", "spark"):
        run(empty / "penstock", "examples", name, cwd=tmp_path)
        written = {path.relative_to(ROOT / "examples") for path in (ROOT / "examples" / name).rglob("*.*")}
        copied = {path.relative_to(tmp_path) for path in (tmp_path / name).rglob("*.*")}
        assert {path for path in written if "__pycache__" not in path.parts} == copied
    shown = run(empty / "python", "emails.py", cwd=tmp_path / "queues")
    assert shown, "the example printed nothing"


def test_the_source_distribution_holds_every_tracked_file(source: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("only a checkout knows which files are tracked")
    tracked = {name for name in run("git", "ls-files", cwd=ROOT).splitlines() if (ROOT / name).exists()}
    packed = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    assert tracked - packed == set()


def test_the_source_distribution_installs(source: Path, empty: Path, tmp_path: Path) -> None:
    run(empty / "pip", "install", "--quiet", source, cwd=tmp_path)
    assert run(empty / "penstock", "--version", cwd=tmp_path).startswith("penstock ")


def test_the_tests_of_the_source_distribution_find_what_they_need(source: Path) -> None:
    """Every module of the tests is imported from there, and those that read files of the project pass."""
    pytest_there = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    path = str(source / "src")
    assert run(
        sys.executable, "-c", "import penstock; print(penstock.__file__)", cwd=source, PYTHONPATH=path
    ).startswith(path)
    run(*pytest_there, "--collect-only", "-m", "", cwd=source, PYTHONPATH=path)
    reading = [
        "tests/test_layout.py",
        "tests/broker/test_layout.py",
        "tests/docs/test_links.py",
        "tests/docs/test_site.py",
    ]
    run(*pytest_there, *reading, "tests/packaging", cwd=source, PYTHONPATH=path)


@pytest.fixture(scope="module")
def runners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The programs of an environment with uv and pipx, and folders of their own for what they install."""
    folder = tmp_path_factory.mktemp("runners")
    run(sys.executable, "-m", "venv", folder / "tools", cwd=folder)
    run(folder / "tools" / "bin" / "pip", "install", "--quiet", "uv", "pipx", cwd=folder)
    yield folder / "tools" / "bin"
    shutil.rmtree(folder)


def test_uvx_runs_it(wheel: Path, runners: Path, tmp_path: Path) -> None:
    uvx: list[str | Path] = [runners / "uvx", "--python", sys.executable, "--from", wheel, "penstock"]
    serves_and_stops([*uvx, "serve"], tmp_path, uvx, UV_CACHE_DIR=str(runners.parent / "uv"))


def test_pipx_runs_it(wheel: Path, runners: Path, tmp_path: Path) -> None:
    pipx: list[str | Path] = [runners / "pipx", "run", "--python", sys.executable, "--spec", wheel, "penstock"]
    serves_and_stops([*pipx, "serve"], tmp_path, pipx, PIPX_HOME=str(runners.parent / "pipx"))
