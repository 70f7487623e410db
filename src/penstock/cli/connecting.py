"""How a command connects to its cluster: address, user, password and TLS, as settings of the client.

A password is never on the command line, where `ps` and the shell's history would show it. It comes from
`--password-file`, from PENSTOCK_PASSWORD, from the properties file of `--client-config`, or from a prompt. `--user`
alone means SASL_SSL with SCRAM-SHA-512: to send a password unencrypted, one has to say so.
"""

from __future__ import annotations

import os
from getpass import getpass
from pathlib import Path

import click

from penstock.cli.failures import Failure
from penstock.cli.options import connection_choices
from penstock.properties import read_properties

PASSWORD_VARIABLE = "PENSTOCK_PASSWORD"
_PASSWORD_HELP = {
    "login_user": "sasl_username",
    "security_protocol": "security_protocol",
    "sasl_mechanism": "sasl_mechanism",
    "ca_file": "ssl_cafile",
}
_SETTINGS = "penstock.connection.settings"


def connection_settings(bootstrap: str) -> dict[str, object]:
    """The settings of a client for the command that runs; asks for a password at most once."""
    ctx = click.get_current_context(silent=True)
    if ctx is None:
        return {"bootstrap_servers": bootstrap}
    settings = ctx.meta.get(_SETTINGS)
    if settings is None:
        settings = ctx.meta[_SETTINGS] = _settings(ctx, bootstrap)
    return dict(settings)


def spark_settings(bootstrap: str) -> tuple[str, dict[str, object]]:
    """The same for Spark: the address, and the settings of TLS and SASL."""
    from penstock.client.config import ClientConfig, load

    config = load(ClientConfig, connection_settings(bootstrap), {})
    return config.bootstrap_servers, config.given()


def client_config_file() -> str:
    """The file of --client-config, if the command that runs was given one."""
    return str(connection_choices(click.get_current_context()).get("client_config", ""))


def login_settings(bootstrap: str, *, required: bool) -> dict[str, object]:
    """The settings of a client that may be without a user, for a program that asks people who they are."""
    ctx = click.get_current_context()
    settings = _settings(ctx, bootstrap, with_user=False)
    if not required:
        return settings
    if settings.get("sasl_username") or settings.get("sasl_jaas_config"):
        raise click.UsageError("--login asks each person for a user; leave --user out.", ctx)
    if str(settings.get("sasl_mechanism", "")).upper() == "OAUTHBEARER":
        raise click.UsageError("--login asks for a password, and OAUTHBEARER takes tokens.", ctx)
    settings.setdefault("security_protocol", "SASL_SSL")
    settings.setdefault("sasl_mechanism", "SCRAM-SHA-512")
    if not str(settings["security_protocol"]).lower().startswith("sasl_"):
        raise click.UsageError("--login needs a listener that wants a user: --security-protocol SASL_SSL.", ctx)
    return settings


def _settings(ctx: click.Context, bootstrap: str, *, with_user: bool = True) -> dict[str, object]:
    from penstock.client.config import ClientConfig, load
    from penstock.client.errors import UsageError

    choices = connection_choices(ctx)
    file = choices.get("client_config")
    settings = _from_file(str(file)) if file else {}
    if "bootstrap_servers" not in settings or _is_given(ctx, "bootstrap"):
        settings["bootstrap_servers"] = bootstrap
    settings.update({_PASSWORD_HELP[name]: value for name, value in choices.items() if name in _PASSWORD_HELP})
    if "sasl_username" in settings:
        settings.setdefault("security_protocol", "SASL_SSL")
        settings.setdefault("sasl_mechanism", "SCRAM-SHA-512")
        if "password_file" in choices:
            settings["sasl_password"] = _first_line(str(choices["password_file"]))
        elif "sasl_password" not in settings:
            settings["sasl_password"] = _password(str(settings["sasl_username"]))
    elif "password_file" in choices:
        raise click.UsageError("--password-file is the password of a user: name the user with --user.", ctx)
    checked = settings
    if not with_user and not any(name.startswith("sasl_") and name != "sasl_mechanism" for name in settings):
        if str(settings.get("security_protocol", "")).lower().startswith("sasl_"):
            settings.setdefault("sasl_mechanism", "SCRAM-SHA-512")
        if "sasl_mechanism" in settings:
            checked = {"security_protocol": "SASL_SSL", **settings, "sasl_username": "-", "sasl_password": "-"}
    try:
        load(ClientConfig, checked, {})
    except UsageError as error:
        raise click.UsageError(f"{file}: {error}" if file else str(error), ctx) from None
    return settings


def _is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) not in (None, click.core.ParameterSource.DEFAULT)


def _from_file(path: str) -> dict[str, object]:
    from penstock.client.config import field_of

    try:
        given = read_properties(Path(path).read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{path} cannot be read: {error}") from None
    return {field_of(name): value for name, value in given.items()}


def _password(user: str) -> str:
    password = os.environ.get(PASSWORD_VARIABLE, "")
    if not password:
        try:
            os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
        except OSError:
            raise click.UsageError(
                f"There is no terminal to ask for the password of {user}; use --password-file FILE or "
                f"{PASSWORD_VARIABLE}."
            ) from None
        password = getpass(f"Password of {user}: ")
    if not password:
        raise click.UsageError("The password is empty.")
    return password


def _first_line(path: str) -> str:
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"The password cannot be read from {path}: {error}") from None
    return text.partition("\n")[0].rstrip("\r")
