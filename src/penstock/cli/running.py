"""Running a command's work with a connected client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from penstock.cli.connecting import connection_settings

if TYPE_CHECKING:
    from penstock.client.admin import Admin

T = TypeVar("T")


def with_admin(bootstrap: str, work: Callable[[Admin], Awaitable[T]]) -> T:
    """Run `work` with a connected admin client."""
    from penstock.client.admin import Admin

    settings = connection_settings(bootstrap)

    async def main() -> T:
        async with Admin(
            settings,
            client_id="penstock-cli",
            default_api_timeout_ms=15_000,
            socket_connection_setup_timeout_ms=5_000,
            allow_auto_create_topics=False,
        ) as admin:
            return await work(admin)

    return asyncio.run(main())
