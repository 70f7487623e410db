"""The process from which Spark forks its Python workers, with the heavy imports done once, before the first fork."""

from __future__ import annotations

from importlib.util import find_spec

import pyarrow  # noqa: F401
from pyspark.daemon import manager

if find_spec("numba") is not None:
    import penstock.records.arrow_rows  # noqa: F401

if __name__ == "__main__":
    manager()
