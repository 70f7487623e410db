"""What a Penstock broker shows beside its metrics: the windows of queues.

Kafka's protocol has no request for it, so it is read over HTTP from the address in each broker's
`penstock.metrics.listen`, which a Penstock broker describes to every user. Beyond this machine it is read as the
session's user, and the broker decides what that user may see. On this machine the broker asks nobody for a user, so
what is not about one group is read only for users to whom the broker grants DESCRIBE on the cluster, as it would itself
require; what is about one group is for pages that have described that group as the user. A broker that has no such
address, Apache Kafka among them, shows nothing, and the pages say so.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import json
from collections.abc import Awaitable, Callable, Mapping
from http.client import HTTPException
from typing import cast
from urllib.parse import urlencode
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

from penstock.client.admin import Admin, ResourceType
from penstock.client.config import ClientConfig, load
from penstock.client.tls import context_of
from penstock.console.readings import Cached
from penstock.wire.acls import AclOperation
from penstock.wire.errors import KafkaError

CONFIG = "penstock.metrics.listen"
_PATIENCE_SECONDS = 5.0
_FRESH_SECONDS = 30.0
_MAX_BYTES = 32 << 20
_EVERYWHERE = ("", "0.0.0.0", "[::]")


class Monitoring:
    def __init__(self, admin: Callable[[], Awaitable[Admin]], settings: Mapping[str, object]) -> None:
        self._admin = admin
        self._settings = settings
        self._addresses = Cached(self._find, _FRESH_SECONDS)
        self._permission = Cached(self._ask, _FRESH_SECONDS)

    async def is_there(self) -> bool:
        return bool(await self._addresses.get())

    async def may_look(self) -> bool:
        """Whether the user may see what is about more than one group."""
        return await self._permission.get()

    async def read(self, path: str, **query: str) -> list[object]:
        """What each broker that can be reached shows under a path; a broker that fails, or refuses, is left out."""
        return list((await self.by_broker(path, **query)).values())

    async def by_broker(self, path: str, **query: str) -> dict[int, object]:
        """The same by the id of the broker."""
        return await self._read(path, query, json.loads)

    async def metrics(self, *prefixes: str) -> dict[int, dict[str, float]]:
        """The metrics whose names begin so, by broker; a name has its labels behind it, as in Prometheus text."""
        told = await self._read("/metrics", {}, lambda text: metrics_in(text, prefixes))
        return cast("dict[int, dict[str, float]]", told)

    async def _read(
        self, path: str, query: Mapping[str, str], understand: Callable[[str], object]
    ) -> dict[int, object]:
        if "group" not in query and not await self.may_look():
            return {}
        address = path + (f"?{urlencode(query)}" if query else "")
        bases = await self._addresses.get()
        found = await asyncio.gather(
            *(asyncio.to_thread(self._get, base + address, understand) for base in bases.values())
        )
        return {node: told for node, told in zip(bases, found, strict=True) if told is not None}

    async def _ask(self) -> bool:
        cluster = await (await self._admin()).describe_cluster(include_operations=True)
        return cluster.operations is not None and AclOperation.DESCRIBE in cluster.operations

    async def _find(self) -> dict[int, str]:
        admin = await self._admin()
        found = {}
        for node in (await admin.describe_cluster()).nodes:
            try:
                configs = await admin.describe_configs(ResourceType.BROKER, str(node.node_id), [CONFIG])
            except KafkaError:
                continue  # Apache Kafka shows configs of brokers to few, and has none of this name
            listen = configs[CONFIG].value if CONFIG in configs else None
            if listen:
                host, _, port = listen.rpartition(":")
                scheme = "http" if _is_here(host) else "https"
                found[node.node_id] = f"{scheme}://{node.host if host in _EVERYWHERE else host}:{port}"
        return found

    def _get(self, address: str, understand: Callable[[str], object]) -> object:
        request = Request(address)
        handlers: list[ProxyHandler | HTTPSHandler] = [ProxyHandler({})]
        if address.startswith("https:"):
            handlers.append(HTTPSHandler(context=context_of(load(ClientConfig, self._settings, {}))))
            user, password = self._settings.get("sasl_username"), self._settings.get("sasl_password")
            if user:
                login = base64.b64encode(f"{user}:{password}".encode()).decode()
                request.add_header("Authorization", f"Basic {login}")
        try:
            with build_opener(*handlers).open(request, timeout=_PATIENCE_SECONDS) as response:
                return understand(response.read(_MAX_BYTES).decode())
        except (OSError, HTTPException, ValueError):
            return None


def metrics_in(text: str, prefixes: tuple[str, ...]) -> dict[str, float]:
    """The samples in Prometheus text whose names begin with one of `prefixes`."""
    found = {}
    for line in text.splitlines():
        if line.startswith(prefixes):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
