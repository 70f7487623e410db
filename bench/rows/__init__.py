"""The rows of the benchmark by family: each module here is a family and lists its rows in ROWS."""

from __future__ import annotations

import importlib
import pkgutil

from bench.harness import Row

_ORDER = ("core", "groups", "transactions", "share", "security", "client", "brokers")


def _place(name: str) -> int:
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


FAMILIES: dict[str, tuple[Row, ...]] = {
    name: importlib.import_module(f"{__name__}.{name}").ROWS
    for name in sorted((module.name for module in pkgutil.iter_modules(__path__)), key=_place)
}
