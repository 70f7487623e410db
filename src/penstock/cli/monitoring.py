"""What a Penstock broker shows beside its metrics, for commands that want more than Kafka's protocol can tell.

Kafka has no request for these views, and clients of Kafka must not meet one that Kafka does not have, so they are read
over HTTP from the address in the broker's `penstock.metrics.listen`, which is off unless it is set. An address beyond
this machine is served over TLS, to users who log in: the command's own user and authority are used for it too.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import ssl
from http.client import HTTPException
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import click

from penstock.cli.failures import Failure

if TYPE_CHECKING:
    from penstock.client.admin import Admin

CONFIG = "penstock.metrics.listen"
_PATIENCE_SECONDS = 10.0


async def find_address(admin: Admin, node_id: int | None = None) -> str | None:
    """The address that a broker (any, if none is named) shows its views at, or None."""
    from penstock.client.admin import ResourceType

    cluster = await admin.describe_cluster()
    for node in cluster.nodes:
        if node_id is not None and node.node_id != node_id:
            continue
        configs = await admin.describe_configs(ResourceType.BROKER, str(node.node_id), [CONFIG])
        listen = configs[CONFIG].value if CONFIG in configs else None
        if listen:
            host, _, port = listen.rpartition(":")
            scheme = "http" if _is_here(listen) else "https"
            return f"{scheme}://{host if host not in ('', '0.0.0.0', '[::]') else node.host}:{port}"
    return None


async def address_or_failure(admin: Admin, bootstrap: str, what: str) -> str:
    """As `find_address`; says how to start a broker that shows `what` when this one does not."""
    address = await find_address(admin)
    if address is None:
        raise Failure(
            f"The broker at {bootstrap} does not show {what}.\n"
            f"  Start it with:      penstock serve -c {CONFIG}=127.0.0.1:9644"
        )
    return address


def read_view(address: str, path: str, **query: str) -> object:
    """The JSON of a view. `address` may begin with http:// or https://."""
    try:
        return json.loads(read_text(address, path, **query))
    except ValueError as error:
        raise Failure(f"{address} does not answer ({error}); is it the broker's {CONFIG}?") from None


def read_text(address: str, path: str, **query: str) -> str:
    """What is shown under a path, as it is."""
    base = address if "://" in address else f"{'http' if _is_here(address) else 'https'}://{address}"
    request = Request(base + path + (f"?{urlencode(query)}" if query else ""))
    context = None
    if base.startswith("https://"):
        context, login = _credentials()
        if login:
            request.add_header("Authorization", f"Basic {base64.b64encode(login.encode()).decode()}")
    try:
        with urlopen(request, timeout=_PATIENCE_SECONDS, context=context) as response:
            return str(response.read(), "utf-8")
    except HTTPError as error:
        raise Failure(_refusal(address, error)) from None
    except (OSError, HTTPException, ValueError) as error:
        raise Failure(f"{address} does not answer ({error}); is it the broker's {CONFIG}?") from None


def _is_here(address: str) -> bool:
    """Whether an address is of this machine, where monitoring is served without TLS."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _credentials() -> tuple[ssl.SSLContext, str]:
    """What the command's connection options say about trust, and the user and password for a login."""
    from penstock.cli.connecting import connection_settings
    from penstock.client.config import ClientConfig, load
    from penstock.client.tls import context_of

    settings = connection_settings(str(click.get_current_context().params["bootstrap"]))
    user, password = settings.get("sasl_username"), settings.get("sasl_password")
    return context_of(
        load(ClientConfig, settings, {})
    ) or ssl.create_default_context(), f"{user}:{password}" if user else ""


def _refusal(address: str, error: HTTPError) -> str:
    if error.code == 401:
        return f"{address} wants a user who may look: log in with --user NAME ({CONFIG} of the broker)."
    if error.code == 403:
        reason = error.read(1000).decode(errors="replace").strip()
        return f"{address} does not show this to your user: {reason} (see penstock acl add --rule describe ...)."
    return f"{address} answers {error.code} {error.reason}; is it the broker's {CONFIG}?"
