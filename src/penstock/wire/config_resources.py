"""What a config belongs to."""

from __future__ import annotations

from enum import IntEnum


class ResourceType(IntEnum):
    """In the numbers of Kafka's `ConfigResource.Type`; those of ACLs differ."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
