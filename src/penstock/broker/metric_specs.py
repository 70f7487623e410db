"""How a metric is described in the tables of metrics: name, type, labels, meaning."""

from __future__ import annotations

from typing import NamedTuple

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"


class Spec(NamedTuple):
    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


def specs(*rows: tuple[str, str, str, str]) -> tuple[Spec, ...]:
    """Rows of a table; the names of the labels are one text, with spaces between them."""
    return tuple(Spec(name, kind, tuple(labels.split()), text) for name, kind, labels, text in rows)


def unit_of(name: str, kind: str) -> str:
    """The unit that a metric's name ends with, if it is a base unit of Prometheus; `_total` comes after it."""
    ending = (name.removesuffix("_total") if kind == COUNTER else name).rpartition("_")[2]
    return ending if ending in ("bytes", "seconds") else ""
