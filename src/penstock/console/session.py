"""The clients that stand behind a browser's pages.

A session has one admin client and one producer, made when they are first needed. Consumers are made per reading and
closed with it. Every client of a session has the same settings, so what the broker allows the session's user is what
the pages show.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from penstock.client.admin import Admin
from penstock.client.consumer import Consumer
from penstock.client.producer import Producer
from penstock.console.monitoring import Monitoring

_CLIENT_ID = "penstock-console"
_PATIENCE_MS = 10_000


class Session:
    """The clients of one user, or of everybody where the cluster knows no users."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        self.settings = dict(settings)
        self._admin: Admin | None = None
        self._producer: Producer | None = None
        self._making = asyncio.Lock()
        self.monitoring = Monitoring(self.admin, self.settings)

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
        consumer = Consumer(
            self.settings,
            client_id=_CLIENT_ID,
            default_api_timeout_ms=_PATIENCE_MS,
            allow_auto_create_topics=False,
            enable_auto_commit=False,
            exclude_internal_topics=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed" if committed else "read_uncommitted",
            queued_max_bytes=8 << 20,
            max_partition_fetch_bytes=2 << 20,
            fetch_max_bytes=8 << 20,
            check_crcs=False,  # they have been checked by the broker, and this is for looking
        )
        try:
            await consumer.start()
            yield consumer
        finally:
            await consumer.close()

    async def close(self) -> None:
        admin, producer = self._admin, self._producer
        self._admin = self._producer = None
        if producer is not None:
            await producer.close()
        if admin is not None:
            await admin.close()
