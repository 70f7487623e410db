from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from penstock.cli.docs import pages
from penstock.cli.main import COMMANDS, cli
from penstock.cli.options import Command
from tests.cli.conftest import Run, command, environment


def test_help_lists_every_command_without_importing_any(penstock: Run) -> None:
    shown = penstock("--help").stdout
    assert all(name in shown for name in COMMANDS)
    check = "import sys, penstock.cli.main as m; m.run(['--help']); print([n for n in sys.modules if 'penstock' in n])"
    ran = subprocess.run([command(())[0], "-c", check], capture_output=True, text=True, env=environment(), check=True)
    loaded = ran.stdout.splitlines()[-1]
    assert "penstock.client" not in loaded
    assert "penstock.broker" not in loaded


def test_a_misspelt_command_is_answered_with_the_nearest_one(penstock: Run) -> None:
    wrong = penstock("tpic")
    assert wrong.returncode == 2
    assert "Did you mean: penstock topic" in wrong.stderr
    assert "See: penstock topic --help" in penstock("topic", "xyzzy").stderr


def test_no_broker_says_how_to_start_one(penstock: Run) -> None:
    for arguments in (("topic", "list"), ("produce", "t", "v"), ("consume", "t")):
        failed = penstock(*arguments, "--bootstrap", "127.0.0.1:1")
        assert failed.returncode == 1
        assert "penstock serve" in failed.stderr
        assert "Traceback" not in failed.stderr


def test_an_option_comes_from_the_command_line_the_environment_or_the_file(penstock: Run, tmp_path: Path) -> None:
    nowhere = {"PENSTOCK_BOOTSTRAP": ""}
    (tmp_path / "penstock.toml").write_text('bootstrap = "127.0.0.1:2"\n[topic.list]\nbootstrap = "127.0.0.1:3"\n')
    assert "127.0.0.1:3" in penstock("topic", "list", env=nowhere).stderr
    assert "127.0.0.1:2" in penstock("topic", "delete", "t", env=nowhere).stderr
    assert "127.0.0.1:4" in penstock("topic", "list", env={"PENSTOCK_BOOTSTRAP": "127.0.0.1:4"}).stderr
    one_only = {"PENSTOCK_TOPIC_LIST_BOOTSTRAP": "127.0.0.1:5"}
    assert "127.0.0.1:5" in penstock("topic", "list", env=one_only).stderr
    assert "127.0.0.1:6" in penstock("topic", "list", "--bootstrap", "127.0.0.1:6", env=one_only).stderr


def test_an_option_that_may_be_repeated_may_be_one_text_or_several_in_the_file(penstock: Run, tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text('[top]\nmonitoring = "127.0.0.1:2"\n')
    assert "127.0.0.1:2 does not answer" in penstock("top", "--once").stderr
    (tmp_path / "penstock.toml").write_text('[top]\nmonitoring = ["127.0.0.1:3", "127.0.0.1:2"]\n')
    assert "127.0.0.1:3 does not answer" in penstock("top", "--once").stderr


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("[topic.list]\nbotstrap = 'x'\n", "did you mean 'bootstrap'"), ("not toml", "not a TOML file")],
)
def test_a_wrong_config_file_is_refused(penstock: Run, tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "other.toml").write_text(text)
    failed = penstock("--config", "other.toml", "topic", "list")
    assert failed.returncode == 2
    assert complaint in failed.stderr


def test_every_command_explains_its_failures_and_reads_the_config_file() -> None:
    def commands_below(group: click.Group) -> Iterator[click.Command]:
        ctx = click.Context(group)
        for name in group.list_commands(ctx):
            found = group.get_command(ctx, name)
            assert found is not None
            yield from commands_below(found) if isinstance(found, click.Group) else [found]

    plain = [each.name for each in commands_below(cli) if not isinstance(each, Command)]
    assert plain == []


def test_the_documentation_is_what_help_says() -> None:
    written = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
    assert written.read_text() == pages(), "run python -m penstock.cli.docs"


def test_a_command_on_spark_without_spark_says_what_to_install() -> None:
    # None in sys.modules is a package that cannot be found, though it may well be installed.
    program = (
        "import sys; sys.modules['pyspark'] = None; from penstock.cli.main import run; "
        "sys.exit(run(['load', 'orders', '--to', 'lake']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "pip install 'penstock[spark]'" in done.stderr
    assert "Traceback" not in done.stderr
