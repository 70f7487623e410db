"""`penstock tls`: certificates for trying out TLS."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.failures import Failure, sentence
from penstock.cli.options import CONTEXT_SETTINGS, Group
from penstock.cli.output import note

if TYPE_CHECKING:
    from penstock.certificates import CertificatePaths


@click.group(cls=Group, context_settings=CONTEXT_SETTINGS)
def tls() -> None:
    """Create certificates for trying out TLS."""


@tls.command("create")
@click.option(
    "--host",
    "hosts",
    metavar="NAME",
    multiple=True,
    help="Name or address under which clients reach the broker; may be repeated.  [default: this machine's]",
)
@click.option("--client", "clients", metavar="NAME", multiple=True, help="A certificate for a client; may be repeated.")
@click.option(
    "--out",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("penstock-tls"),
    show_default=True,
    help="Folder for the files; keys are readable by their owner only.",
)
def create(hosts: tuple[str, ...], clients: tuple[str, ...], folder: Path) -> None:
    """Create an authority, a broker certificate that it signs, and certificates for clients.

    An authority that is in the folder already signs the new certificates, and the broker certificate is replaced: a
    running broker takes over the new one by itself.

    Examples:

    \b
      penstock tls create
      penstock tls create --host broker.example --client billing --out /etc/penstock/tls
    """
    from penstock.certificates import CertificateError, create_certificates

    try:
        paths = create_certificates(folder, hosts or _this_machine(), clients)
    except CertificateError as error:
        raise Failure(sentence(str(error))) from error
    _print(paths)


def _this_machine() -> list[str]:
    return list(dict.fromkeys(["localhost", socket.gethostname(), "127.0.0.1", "::1"]))


def _print(paths: CertificatePaths) -> None:
    click.echo(f"{paths.ca}  what clients trust")
    click.echo(f"{paths.ca_key}  signs further certificates; keep it apart from the broker")
    click.echo(f"{paths.broker}  the broker's key and certificate")
    for name, path in paths.clients.items():
        click.echo(f"{path}  key and certificate of {name}, who is User:CN={name}")
    configs = [f"-c ssl.keystore.location={paths.broker}"]
    if paths.clients:
        configs += [f"-c ssl.truststore.location={paths.ca}", "-c ssl.client.auth=required"]
    note("Serve with it:  penstock serve --listen SSL://127.0.0.1:9093 " + " ".join(configs))
    note(f"Connect:        security.protocol=SSL, and trust {paths.ca} (ssl.ca.location, or ssl_cafile in Python)")
