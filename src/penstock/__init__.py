"""Penstock: streams and work queues that speak Apache Kafka's wire protocol."""

from __future__ import annotations

__version__ = "0.1.0"
