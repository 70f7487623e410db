"""What a Penstock broker shows beside its metrics, for commands that want more than Kafka's protocol can tell.

It is read by `penstock.client.monitoring`, with the user and the authority of the command's own connection options.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from penstock.cli.failures import Failure
from penstock.client.monitoring import CONFIG, NotShown, find_addresses, read, url_of
from penstock.client.scrapes import MalformedScrape, Samples, parse

if TYPE_CHECKING:
    from penstock.client.admin import Admin

__all__ = ["CONFIG", "address_or_failure", "find_address", "read_samples", "read_text", "read_view"]


async def find_address(admin: Admin, node_id: int | None = None) -> str | None:
    """The address that a broker (any, if none is named) shows its views at, or None."""
    found = await find_addresses(admin)
    return next(iter(found.values()), None) if node_id is None else found.get(node_id)


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
        raise _silent(address, error) from None


def read_samples(address: str) -> Samples:
    """The broker's metrics."""
    try:
        return parse(read_text(address, "/metrics"))
    except MalformedScrape as error:
        raise _silent(address, error) from None


def read_text(address: str, path: str, **query: str) -> str:
    """What is shown under a path, as it is."""
    from penstock.cli.connecting import connection_settings

    url = url_of(address)
    settings: dict[str, object] = {}
    if url.startswith("https:"):
        settings = connection_settings(str(click.get_current_context().params["bootstrap"]))
    try:
        return read(url, path, query, settings)
    except NotShown as error:
        if error.status is None:
            raise _silent(address, error) from None
        raise Failure(_refusal(address, error)) from None


def _silent(address: str, error: Exception) -> Failure:
    return Failure(f"{address} does not answer ({error}); is it the broker's {CONFIG}?")


def _refusal(address: str, error: NotShown) -> str:
    if error.status == 401:
        return f"{address} wants a user who may look: log in with --user NAME ({CONFIG} of the broker)."
    if error.status == 403:
        return f"{address} does not show this to your user: {error} (see penstock acl add --rule describe ...)."
    return f"{address} answers {error.status} {error}; is it the broker's {CONFIG}?"
