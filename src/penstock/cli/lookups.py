"""Finds what a command line names, or fails with the nearest existing name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.cli.failures import unknown_topic

if TYPE_CHECKING:
    from penstock.client.admin import Admin
    from penstock.client.metadata import TopicInfo


async def find_topic(admin: Admin, name: str) -> TopicInfo:
    from penstock.wire.errors import UnknownTopicOrPartition

    try:
        return await admin.describe_topic(name)
    except UnknownTopicOrPartition:
        raise unknown_topic(name, [info.name for info in await admin.list_topics()]) from None
