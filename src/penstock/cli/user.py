"""`penstock user`: users and their passwords, on a running broker or in the data folder of a stopped one.

A user has a credential for each SCRAM mechanism, made of the same password, so that a client may use whichever it can.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.data_folder import DataFolder, data_option
from penstock.cli.failures import Failure
from penstock.cli.options import CONTEXT_SETTINGS, Group, bootstrap_option, json_option
from penstock.cli.output import note, print_json, print_table
from penstock.cli.passwords import generate_option, hand_out, new_password, password_file_option
from penstock.cli.running import with_admin
from penstock.security.scram import ScramMechanism

if TYPE_CHECKING:
    from penstock.client.admin import Admin
    from penstock.client.admin.base import Outcome

Users = dict[str, list[tuple[int, int]]]


@click.group(cls=Group, context_settings=CONTEXT_SETTINGS)
def user() -> None:
    """Add users, list them, change passwords, remove users."""


@user.command("add")
@click.argument("name")
@password_file_option
@generate_option
@data_option
@bootstrap_option
def add(name: str, new_password_file: Path | None, generate: bool, data: Path | None, bootstrap: str) -> None:
    """Add a user.

    The password is asked for, or comes from --new-password-file, from PENSTOCK_NEW_PASSWORD or from --generate; never
    from the command line, which others can read. --data DIR adds the first user before a broker's first start.

    A user may do nothing until a rule allows it: see penstock acl.
    """
    _check_name(name)
    if name in _users(data, bootstrap):
        raise Failure(f"There is a user {name!r} already.\n  Change the password: penstock user password {name}")
    _set(name, new_password(name, new_password_file, generate), generate, data, bootstrap, f"added user {name}")


@user.command("password")
@click.argument("name")
@password_file_option
@generate_option
@data_option
@bootstrap_option
def password(name: str, new_password_file: Path | None, generate: bool, data: Path | None, bootstrap: str) -> None:
    """Change a user's password, which ends the user's sessions.

    If nobody knows an administrator's password any more, stop the broker and use --data DIR.
    """
    _must_exist(name, _users(data, bootstrap))
    changed = f"changed the password of user {name}"
    _set(name, new_password(name, new_password_file, generate), generate, data, bootstrap, changed)


@user.command("list")
@data_option
@bootstrap_option
@json_option
def list_(data: Path | None, bootstrap: str, as_json: bool) -> None:
    """List users and their SCRAM mechanisms."""
    found = _users(data, bootstrap)
    if as_json:
        print_json(
            [
                {"user": name, "mechanisms": {_label(mechanism): iterations for mechanism, iterations in credentials}}
                for name, credentials in found.items()
            ]
        )
    elif found:
        rows = [[name, ", ".join(_label(mechanism) for mechanism, _ in each)] for name, each in found.items()]
        print_table(["USER", "MECHANISMS"], rows)
    else:
        note("There are no users. Add one:  penstock user add NAME")


@user.command("remove")
@click.argument("name")
@data_option
@bootstrap_option
def remove(name: str, data: Path | None, bootstrap: str) -> None:
    """Remove a user, which ends the user's sessions. Rules that name the user stay (see penstock acl remove)."""
    found = _users(data, bootstrap)
    _must_exist(name, found)
    if data is not None:
        DataFolder(data).remove_user(name)
    else:
        mechanisms = [ScramMechanism(mechanism) for mechanism, _ in found[name]]
        with_admin(bootstrap, lambda admin: _delete(admin, name, mechanisms))
    click.echo(f"removed user {name}")


def _users(data: Path | None, bootstrap: str) -> Users:
    if data is not None:
        return DataFolder(data).users()
    described = with_admin(bootstrap, lambda admin: admin.describe_user_scram_credentials())
    return {name: [(int(info.mechanism), info.iterations) for info in infos] for name, infos in described.items()}


def _set(name: str, secret: str, generated: bool, data: Path | None, bootstrap: str, done: str) -> None:
    if data is not None:
        DataFolder(data).set_password(name, secret)
    else:
        with_admin(bootstrap, lambda admin: _upsert(admin, name, secret))
    click.echo(done)
    if generated:
        click.echo(hand_out(name, secret, data or Path()))


async def _upsert(admin: Admin, name: str, secret: str) -> None:
    from penstock.client.admin import ScramUpsertion

    for mechanism in ScramMechanism:  # one by one: Kafka takes a user once in a request, whatever the mechanism
        _raise(await admin.alter_user_scram_credentials([ScramUpsertion(name, secret, mechanism)]))


async def _delete(admin: Admin, name: str, mechanisms: list[ScramMechanism]) -> None:
    from penstock.client.admin import ScramDeletion

    for mechanism in mechanisms:
        _raise(await admin.alter_user_scram_credentials(deletions=[ScramDeletion(name, mechanism)]))


def _raise(outcome: Outcome) -> None:
    from penstock.client.admin.base import raise_first

    raise_first(outcome)


def _check_name(name: str) -> None:
    if not name or not name.isprintable():
        raise click.UsageError("A user's name cannot be empty or hold control characters.")


def _must_exist(name: str, users: Users) -> None:
    if name not in users:
        raise Failure(f"There is no user {name!r}.\n  Add one:            penstock user add {name}")


def _label(mechanism: int) -> str:
    return ScramMechanism(mechanism).sasl_name
