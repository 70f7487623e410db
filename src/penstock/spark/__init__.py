"""The data pipeline on Spark.

    from penstock.spark import load, session

Importing `penstock.spark` needs neither Spark nor Java; what is used is imported then.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.spark.java import SetupError as SetupError
    from penstock.spark.load import load as load
    from penstock.spark.pipelines import Pipeline as Pipeline
    from penstock.spark.session import session as session
    from penstock.spark.source import PenstockSource as PenstockSource
    from penstock.spark.workers import WorkSummary as WorkSummary
    from penstock.spark.workers import work as work

HOMES = {
    "WorkSummary": "penstock.spark.workers",
    "work": "penstock.spark.workers",
    "Pipeline": "penstock.spark.pipelines",
    "PenstockSource": "penstock.spark.source",
    "SetupError": "penstock.spark.java",
    "load": "penstock.spark.load",
    "session": "penstock.spark.session",
}
"""The module of each public name."""

__all__ = list(HOMES)


def __getattr__(name: str) -> object:
    home = HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'penstock.spark' has no attribute {name!r}")
    return getattr(import_module(home), name)


class _Package(ModuleType):
    """Some names are those of modules too. Importing such a module must not put it in the place of the function."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
