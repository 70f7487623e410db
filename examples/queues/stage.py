"""What the examples have in common: a broker to use, topics and a group to work with."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock.client import Admin, ResourceType
from penstock.testing import AsyncBroker
from penstock.wire.errors import TopicAlreadyExists


def arguments(description: str, **counts: int) -> argparse.Namespace:
    """`--bootstrap`, and an option for each number that may be changed."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--bootstrap", help="use this broker instead of one inside this process")
    for name, default in counts.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default {default}")
    return parser.parse_args()


@asynccontextmanager
async def broker(bootstrap: str | None) -> AsyncIterator[str]:
    """The address of a broker: the one that was named, or one that lives as long as the program."""
    if bootstrap is not None:
        yield bootstrap
        return
    async with AsyncBroker() as inside:
        yield inside.bootstrap_servers


async def prepare(
    bootstrap: str, group: str, *topics: str, group_configs: dict[str, str] | None = None, **topic_configs: str
) -> None:
    """Create topics, and let the group begin with the oldest record (the default is the newest)."""
    async with Admin(bootstrap_servers=bootstrap) as admin:
        for topic in topics:
            try:
                await admin.create_topic(topic, 1, 1, {k.replace("_", "."): v for k, v in topic_configs.items()})
            except TopicAlreadyExists:
                pass
        configs: dict[str, str | None] = {"share.auto.offset.reset": "earliest", **(group_configs or {})}
        await admin.alter_configs(ResourceType.GROUP, group, configs)
