"""What a Penstock broker shows beside its metrics, for commands that want more than Kafka's protocol can tell.

Kafka has no request for these views, and clients of Kafka must not meet one that Kafka does not have, so they are read
over HTTP from the address in the broker's `penstock.metrics.listen`, which is off unless it is set.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import urlopen

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
        configs = await admin.describe_configs(ResourceType.BROKER, str(node.node_id))
        listen = configs[CONFIG].value if CONFIG in configs else None
        if listen:
            host, _, port = listen.rpartition(":")
            return f"{host if host not in ('', '0.0.0.0', '[::]') else node.host}:{port}"
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
    """The JSON of a view."""
    url = f"http://{address}{path}" + (f"?{urlencode(query)}" if query else "")
    try:
        with urlopen(url, timeout=_PATIENCE_SECONDS) as response:
            return json.load(response)
    except (HTTPError, URLError, TimeoutError, ValueError) as error:
        raise Failure(f"{address} does not answer ({error}); is it the broker's {CONFIG}?") from None
