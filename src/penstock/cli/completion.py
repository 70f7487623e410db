"""`penstock completion`: the script that lets a shell complete commands, options and their values."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from penstock.cli.options import CONTEXT_SETTINGS, Command


@click.command(cls=Command, context_settings=CONTEXT_SETTINGS)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
      penstock completion bash > ~/.local/share/bash-completion/completions/penstock
      penstock completion zsh > "${fpath[1]}/_penstock"
      penstock completion fish > ~/.config/fish/completions/penstock.fish
    """
    from penstock.cli.main import cli

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(cli, {}, "penstock", "_PENSTOCK_COMPLETE").source())
