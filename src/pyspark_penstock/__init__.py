"""Registers the format "penstock" with Spark, which looks into importable modules named `pyspark_…`."""

from __future__ import annotations

from penstock.spark.source import PenstockSource

__all__ = ["DefaultSource"]


class DefaultSource(PenstockSource):
    """`spark.read.format("penstock")` and the rest."""
