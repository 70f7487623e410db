"""The clients that stand behind a browser's pages.

A session has one admin client and one producer, made when they are first needed. Consumers are made per reading and
closed with it, few at a time. Every client of a session has the same settings, so what the broker allows the session's
user is what the pages show.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from penstock.client.admin import Admin
from penstock.client.consumer import Consumer
from penstock.client.errors import UsageError
from penstock.client.producer import Producer
from penstock.console.monitoring import Monitoring
from penstock.console.readings import Rates
from penstock.console.searching import Places

_CLIENT_ID = "penstock-console"
_PATIENCE_MS = 10_000
_MOST_CONSUMERS = 12


class Session:
    """The clients of one user, or of everybody where the cluster knows no users."""

    def __init__(self, settings: Mapping[str, object], client_config: str = "") -> None:
        """`client_config` is the file that settings come from, for commands to name."""
        self.settings = dict(settings)
        self.client_config = client_config
        self._admin: Admin | None = None
        self._producer: Producer | None = None
        self._making = asyncio.Lock()
        self._consumers = 0
        self.streams = 0
        """How many live pages are open."""
        self.is_over = asyncio.Event()
        """Set when the user has logged out, or has been."""
        self.monitoring = Monitoring(self.admin, self.settings)
        self.rates = Rates()
        """Of everything that this session's pages count, whichever page or tab it is."""
        self.places = Places()

    @property
    def user(self) -> str | None:
        name = self.settings.get("sasl_username")
        return str(name) if name else None

    @property
    def bootstrap(self) -> str:
        return str(self.settings.get("bootstrap_servers", "127.0.0.1:9092"))

    async def admin(self) -> Admin:
        """The connected admin client."""
        async with self._making:
            self._check()
            if self._admin is None:
                admin = Admin(
                    self.settings,
                    client_id=_CLIENT_ID,
                    default_api_timeout_ms=_PATIENCE_MS,
                    socket_connection_setup_timeout_ms=5_000,
                    allow_auto_create_topics=False,
                )
                try:
                    await admin.start()
                except BaseException:
                    await admin.close()
                    raise
                self._admin = admin
            return self._admin

    async def producer(self) -> Producer:
        """The connected producer, which waits for all acknowledgements."""
        async with self._making:
            self._check()
            if self._producer is None:
                producer = Producer(
                    self.settings,
                    client_id=_CLIENT_ID,
                    linger_ms=0,
                    allow_auto_create_topics=False,
                    delivery_timeout_ms=_PATIENCE_MS,
                    request_timeout_ms=_PATIENCE_MS // 2,
                    max_block_ms=_PATIENCE_MS,
                )
                await producer.start()
                self._producer = producer
            return self._producer

    @asynccontextmanager
    async def consumer(self, *, committed: bool = False) -> AsyncIterator[Consumer[bytes, bytes]]:
        """A consumer without a group, with bounded memory."""
        self._check()
        if self._consumers >= _MOST_CONSUMERS:
            raise UsageError(f"{_MOST_CONSUMERS} searches of yours are running; stop one of them.")
        consumer = Consumer(
            self.settings,
            client_id=_CLIENT_ID,
            default_api_timeout_ms=_PATIENCE_MS,
            allow_auto_create_topics=False,
            enable_auto_commit=False,
            exclude_internal_topics=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed" if committed else "read_uncommitted",
            queued_max_bytes=2 << 20,
            max_partition_fetch_bytes=1 << 20,
            fetch_max_bytes=2 << 20,
            check_crcs=False,  # they have been checked by the broker, and this is for looking
        )
        self._consumers += 1
        try:
            await consumer.start()
            yield consumer
        finally:
            self._consumers -= 1
            await consumer.close()

    def _check(self) -> None:
        if self.is_over.is_set():
            raise UsageError("You are logged out.")

    async def close(self) -> None:
        admin, producer = self._admin, self._producer
        self._admin = self._producer = None
        if producer is not None:
            await producer.close()
        if admin is not None:
            await admin.close()
