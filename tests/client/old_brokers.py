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
        self.features = dataclasses.replace(self.features, api_versions=offered)

    monkeypatch.setattr(Connection, "_negotiate", negotiate_less)
