"""The process from which Spark forks its Python workers, with the heavy imports done once, before the first fork.

Spark starts one such process per kind of worker. Only the kind that runs tasks decodes records; the others, which plan,
are few and short, and should start as fast as they can.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

from pyspark.daemon import manager


def preload(worker_module: str) -> None:
    """Import what the tasks of a kind of worker will need."""
    if worker_module == "pyspark.worker":
        import pyarrow  # noqa: F401

        if find_spec("numba") is not None:
            import penstock.records.arrow_rows
        import penstock.spark.reading  # noqa: F401


if __name__ == "__main__":
    preload(sys.argv[1] if len(sys.argv) > 1 else "pyspark.worker")
    manager()
