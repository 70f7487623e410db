"""`penstock examples`: the programs that come with Penstock, to read, copy and run."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from penstock.cli.failures import Failure, nearest
from penstock.cli.options import CONTEXT_SETTINGS, Command
from penstock.cli.output import note, print_table

_PACKAGED = Path(__file__).parents[1] / "_examples"
_IN_REPOSITORY = Path(__file__).parents[3] / "examples"
_NOT_COPIED = shutil.ignore_patterns("__pycache__", "*.pyc")


@click.command(cls=Command, context_settings=CONTEXT_SETTINGS)
@click.argument("name", required=False)
@click.option(
    "--to",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to copy the example into.  [default: a folder of its name, here]",
)
def examples(name: str | None, folder: Path | None) -> None:
    """List the examples, or copy one of them.

    \b
      penstock examples
      penstock examples queues
      penstock examples client --to first-steps
    """
    found = {path.name: path for path in sorted(_root().iterdir()) if (path / "README.md").is_file()}
    if name is None:
        print_table(["Example", "About"], [(each, _about(path)) for each, path in found.items()])
        note("Copy one:  penstock examples NAME")
        return
    if name not in found:
        guess = nearest(name, found)
        hint = (
            f"  Did you mean:       penstock examples {guess}" if guess else "  See all:            penstock examples"
        )
        raise Failure(f"There is no example {name!r}.\n{hint}")
    target = folder or Path(name)
    try:
        shutil.copytree(found[name], target, ignore=_NOT_COPIED)
    except FileExistsError:
        raise Failure(f"{target} exists already.\n  Name another folder: --to FOLDER") from None
    except OSError as error:
        raise Failure(f"The example cannot be copied to {target}: {error}") from error
    click.echo(f"Copied to {target}.")
    note(f"Read first:  {target / 'README.md'}")


def _root() -> Path:
    root = _PACKAGED if _PACKAGED.is_dir() else _IN_REPOSITORY
    if not root.is_dir():
        raise Failure("The examples are not part of this installation.\n  Install it again: pip install penstock")
    return root


def _about(example: Path) -> str:
    """The headline of its README."""
    first = (example / "README.md").read_text("utf-8").partition("\n")[0]
    return first.lstrip("# ")
