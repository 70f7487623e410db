"""What a Penstock broker shows outside Kafka's protocol: metrics, and views of its groups, queues and clients.

Kafka has no request for these, and the protocol must not have requests that Kafka does not have, so they are read over
HTTP from the address in each broker's `penstock.metrics.listen`, which a Penstock broker describes to every user.
Beyond this machine, the address is served over TLS to users who log in, with the user, password and authority of the
client's own settings. A broker without such an address, such as Apache Kafka, shows nothing.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
from collections.abc import Mapping
from http.client import HTTPException
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

from penstock.client.config import ClientConfig, load
from penstock.client.tls import context_of
from penstock.wire.errors import KafkaError

if TYPE_CHECKING:
    from penstock.client.admin import Admin
    from penstock.client.types import Node

CONFIG = "penstock.metrics.listen"
_EVERYWHERE = ("", "0.0.0.0", "[::]")
_PATIENCE_SECONDS = 10.0
_MOST_BYTES = 64 << 20


class NotShown(Exception):
    """A broker did not show what was requested. `status` is the one of its answer, if it gave one."""

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


async def find_addresses(admin: Admin) -> dict[int, str]:
    """The URL at which each broker shows its views, by node id, for those that have one."""
    nodes = (await admin.describe_cluster()).nodes
    found = await asyncio.gather(*(_find_address(admin, node) for node in nodes))
    return {node.node_id: url for node, url in zip(nodes, found, strict=True) if url is not None}


async def _find_address(admin: Admin, node: Node) -> str | None:
    from penstock.client.admin import ResourceType

    try:
        configs = await admin.describe_configs(ResourceType.BROKER, str(node.node_id), [CONFIG])
    except KafkaError:
        return None  # Apache Kafka shows configs of brokers to few, and has none of this name; or it does not answer
    listen = configs[CONFIG].value if CONFIG in configs else None
    if not listen:
        return None
    host, _, port = listen.rpartition(":")
    return url_of(f"{node.host if host in _EVERYWHERE else host}:{port}", is_of_here=listen)


def url_of(address: str, *, is_of_here: str = "") -> str:
    """HOST:PORT as a URL: over TLS unless it (or `is_of_here`, as the broker names it) is of this machine."""
    if "://" in address:
        return address
    return f"{'http' if _is_loopback(is_of_here or address) else 'https'}://{address}"


def read(
    url: str, path: str, query: Mapping[str, str], settings: Mapping[str, object], patience: float = _PATIENCE_SECONDS
) -> str:
    """What is shown under a path; blocks. `settings` are those of a client. Raises NotShown."""
    request = Request(url + path + (f"?{urlencode(query)}" if query else ""))
    handlers: list[ProxyHandler | HTTPSHandler] = [ProxyHandler({})]
    if url.startswith("https:"):
        handlers.append(HTTPSHandler(context=context_of(load(ClientConfig, settings, {}))))
        user, password = settings.get("sasl_username"), settings.get("sasl_password")
        if user:
            login = base64.b64encode(f"{user}:{password}".encode()).decode()
            request.add_header("Authorization", f"Basic {login}")
    try:
        with build_opener(*handlers).open(request, timeout=patience) as response:
            return str(response.read(_MOST_BYTES), "utf-8")
    except HTTPError as error:
        raise NotShown(error.read(1000).decode(errors="replace").strip() or str(error.reason), error.code) from None
    except (OSError, HTTPException, ValueError) as error:
        raise NotShown(str(error)) from None


def _is_loopback(address: str) -> bool:
    """Whether an address is of this machine, where views are served without TLS."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
