"""New passwords: from a prompt, a file, the environment or a generator, and never from the command line.

A command line is stored in the shell's history, and everybody on the machine can read it with `ps`.
"""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from urllib.parse import quote

import click

from penstock.cli.failures import Failure
from penstock.cli.options import option

VARIABLE = "PENSTOCK_NEW_PASSWORD"
GENERATED_BYTES = 24

password_file_option = option(
    "--new-password-file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="File whose first line is the password; - is standard input.",
)
generate_option = option(
    "--generate",
    is_flag=True,
    help="Generate a password: shown on a terminal, otherwise written to a file that only you can read.",
)


def new_password(user: str, file: Path | None, generate: bool) -> str:
    """The password that a user is to have. Asks for it, twice, if it is given in no other way."""
    if file is not None and generate:
        raise click.UsageError("--new-password-file and --generate exclude each other")
    if generate:
        return secrets.token_urlsafe(GENERATED_BYTES)
    if file is not None:
        password = _first_line(file)
    elif VARIABLE in os.environ:
        password = os.environ[VARIABLE]
    elif sys.stdin.isatty():
        password = str(click.prompt(f"Password for {user}", hide_input=True, confirmation_prompt=True, err=True))
    else:
        raise click.UsageError(
            f"There is no terminal to ask for a password; use --new-password-file FILE, {VARIABLE} or --generate."
        )
    if not password:
        raise click.UsageError("A password cannot be empty.")
    return password


def hand_out(user: str, password: str, folder: Path) -> str:
    """Show a generated password to whoever can see it, and no program's log: a terminal, or else a private file.

    Returns the words to print.
    """
    if sys.stdout.isatty():
        return f"password of {user}: {password}"
    path = folder / f"{quote(user, safe='')}.password"
    write_private(path, password + "\n")
    return f"password of {user}: in {path}, which only you can read"


def write_private(path: Path, text: str) -> None:
    """Write a file that nobody else can read, in one step: a reader sees the old text or the new."""
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w") as file:
        file.write(text)
    os.replace(new, path)


def _first_line(path: Path) -> str:
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"The password cannot be read from {path}: {error}") from None
    return text.partition("\n")[0].rstrip("\r")
