"""What a Penstock broker shows in addition to its metrics, for commands that need more than Kafka's protocol offers.

It is read by `penstock.client.monitoring`, with the user and the authority of the command's own connection options.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import click

from penstock.cli.failures import Failure
from penstock.cli.options import option
from penstock.client.monitoring import CONFIG, NotShown, find_addresses, read, url_of
from penstock.client.scrapes import ByBroker, MalformedScrape, Samples, parse

if TYPE_CHECKING:
    from penstock.client.admin import Admin

__all__ = [
    "CONFIG",
    "Reading",
    "address_or_failure",
    "addresses_or_failure",
    "find_address",
    "monitoring_option",
    "read_all",
    "read_samples",
    "read_text",
    "read_view",
]

_READERS = 16

monitoring_option = option(
    "--monitoring",
    metavar="HOST:PORT",
    multiple=True,
    help="The penstock.metrics.listen of a broker; may be repeated.  [default: read from the brokers]",
)


class Reading(NamedTuple):
    """The metrics of several brokers at one time."""

    brokers: ByBroker
    """By address."""
    silent: dict[str, str]
    """Why a broker is missing, by address."""


async def find_address(admin: Admin, node_id: int | None = None) -> str | None:
    """The address that a broker (any, if none is named) shows its views at, or None."""
    found = await find_addresses(admin)
    return next(iter(found.values()), None) if node_id is None else found.get(node_id)


async def address_or_failure(admin: Admin, bootstrap: str, what: str) -> str:
    """As `find_address`; says how to start a broker that shows `what` when this one does not."""
    return (await addresses_or_failure(admin, bootstrap, what))[0]


async def addresses_or_failure(admin: Admin, bootstrap: str, what: str) -> list[str]:
    """The addresses of all brokers that show their views; a failure that says how to start one if none does."""
    found = await find_addresses(admin)
    if not found:
        raise Failure(
            f"The broker at {bootstrap} does not show {what}.\n"
            f"  Start it with:      penstock serve -c {CONFIG}=127.0.0.1:9644"
        )
    return [found[node_id] for node_id in sorted(found)]


def read_view(address: str, path: str, **query: str) -> object:
    """The JSON of a view. `address` may begin with http:// or https://."""
    try:
        return json.loads(read_text(address, path, **query))
    except ValueError as error:
        raise _silent(address, error) from None


def read_samples(address: str) -> Samples:
    """The broker's metrics."""
    return _samples(address, _settings([address]))


def read_all(addresses: Sequence[str]) -> Reading:
    """The metrics of all brokers that answer, read at the same time; a failure if none does."""
    settings = _settings(addresses)

    def samples_or_failure(address: str) -> Samples | Failure:
        try:
            return _samples(address, settings)
        except Failure as failure:
            return failure

    with ThreadPoolExecutor(min(len(addresses), _READERS)) as readers:
        found = dict(zip(addresses, readers.map(samples_or_failure, addresses), strict=True))
    failures = {address: each for address, each in found.items() if isinstance(each, Failure)}
    if len(failures) == len(found):
        raise next(iter(failures.values()))
    return Reading(
        {address: each for address, each in found.items() if not isinstance(each, Failure)},
        {address: str(failure).splitlines()[0] for address, failure in failures.items()},
    )


def read_text(address: str, path: str, **query: str) -> str:
    """What is shown under a path, as it is."""
    return _text(address, path, query, _settings([address]))


def _samples(address: str, settings: Mapping[str, object]) -> Samples:
    try:
        return parse(_text(address, "/metrics", {}, settings))
    except MalformedScrape as error:
        raise _silent(address, error) from None


def _settings(addresses: Sequence[str]) -> dict[str, object]:
    """The connection options of the command, where an address needs them."""
    from penstock.cli.connecting import connection_settings

    if not any(url_of(address).startswith("https:") for address in addresses):
        return {}
    return connection_settings(str(click.get_current_context().params.get("bootstrap", addresses[0])))


def _text(address: str, path: str, query: Mapping[str, str], settings: Mapping[str, object]) -> str:
    try:
        return read(url_of(address), path, query, settings)
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
