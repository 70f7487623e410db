"""The rows of the benchmark by family; a new capability adds its rows to a module here and to FAMILIES."""

from __future__ import annotations

from bench.harness import Row
from bench.rows import core

FAMILIES: dict[str, tuple[Row, ...]] = {
    "core": core.ROWS,
}
