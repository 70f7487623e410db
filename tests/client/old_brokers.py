"""Brokers that are older than what is asked of them."""

from __future__ import annotations

import dataclasses

import pytest

from penstock.client.connection import Connection


def without_apis(monkeypatch: pytest.MonkeyPatch, *keys: int) -> None:
    """Let every broker look as if it did not offer these APIs."""
    negotiate = Connection._negotiate

    async def negotiate_less(self: Connection, timeout_ms: int) -> None:
        await negotiate(self, timeout_ms)
        offered = {key: versions for key, versions in self.features.api_versions.items() if key not in keys}
        self.conversation.features = dataclasses.replace(self.features, api_versions=offered)

    monkeypatch.setattr(Connection, "_negotiate", negotiate_less)


def limited(monkeypatch: pytest.MonkeyPatch, key: int, newest: int) -> None:
    """Let every broker look as if it offered an API only up to this version."""
    negotiate = Connection._negotiate

    async def negotiate_less(self: Connection, timeout_ms: int) -> None:
        await negotiate(self, timeout_ms)
        offered = {**self.features.api_versions, key: (0, newest)}
        self.conversation.features = dataclasses.replace(self.features, api_versions=offered)

    monkeypatch.setattr(Connection, "_negotiate", negotiate_less)


# What a broker of Kafka 2.1 offers at most, of the APIs that the client uses.
KAFKA_2_1 = {
    0: 7, 1: 10, 2: 4, 3: 7, 8: 6, 9: 5, 10: 2, 11: 3, 12: 2, 13: 2, 14: 2, 15: 2, 16: 2, 18: 2, 19: 3, 20: 3, 21: 1,
    22: 1, 23: 2, 24: 1, 25: 1, 26: 1, 28: 2, 32: 2, 33: 1, 35: 1, 37: 1, 42: 1,
}  # fmt: skip


def as_old_as(monkeypatch: pytest.MonkeyPatch, newest: dict[int, int]) -> None:
    """Let every broker look as if it offered only these APIs, up to these versions."""
    negotiate = Connection._negotiate

    async def negotiate_old(self: Connection, timeout_ms: int) -> None:
        await negotiate(self, timeout_ms)
        offered = {
            key: (low, min(high, newest[key]))
            for key, (low, high) in self.features.api_versions.items()
            if key in newest
        }
        self.conversation.features = dataclasses.replace(
            self.features, api_versions=offered, finalized={}, finalized_epoch=-1
        )

    monkeypatch.setattr(Connection, "_negotiate", negotiate_old)
