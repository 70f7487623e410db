"""The commands in docs/how-to/cluster.md exist, with the options that the page gives them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from penstock.cli.cluster import COMMANDS, cluster

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "cluster.md").read_text()
BLOCKS = re.findall(r"^```\w*\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
LINES = [line for block in BLOCKS for line in block.splitlines()]
SHOWN = [line for line in LINES if line.startswith("penstock cluster ")]


@pytest.mark.parametrize("line", SHOWN)
def test_a_command_of_the_page_is_one_of_ours(line: str, tmp_path: Path) -> None:
    _, _, name, *arguments = shlex.split(line.replace("/var/lib/penstock", str(tmp_path)))
    parent = click.Context(cluster, info_name="cluster")
    command = cluster.get_command(parent, name)
    assert command is not None
    assert command.make_context(name, arguments, parent=parent).params["cluster"].startswith("postgresql://")


def test_the_page_shows_every_command() -> None:
    assert {shlex.split(line)[2] for line in SHOWN} == set(COMMANDS)
