"""The data pipeline on Spark.

    from penstock.spark import session

Importing `penstock.spark` needs neither Spark nor Java; what is used is imported then.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.spark.java import SetupError as SetupError
    from penstock.spark.session import session as session
    from penstock.spark.source import PenstockSource as PenstockSource

_HOMES = {
    "PenstockSource": "penstock.spark.source",
    "SetupError": "penstock.spark.java",
    "session": "penstock.spark.session",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'penstock.spark' has no attribute {name!r}")
    return getattr(import_module(home), name)
