"""The process from which Spark forks its Python workers, with the heavy work done once, before the first fork.

Spark starts one such process per kind of worker. Only the kind that runs tasks decodes records; the others, which plan,
are few and short, and should start as fast as they can.
"""

from __future__ import annotations

import gc
import sys

from pyspark.daemon import manager


def preload(worker_module: str) -> None:
    """Import what the tasks of a kind of worker will need, and decode one record to have the loops ready."""
    if worker_module == "pyspark.worker":
        import penstock.spark.reading
        import penstock.spark.source  # noqa: F401
        from penstock.records.arrow import batch_to_arrow
        from penstock.records.builder import build_batch

        batch_to_arrow(build_batch([(0, b"key", b"value", ())]))
    # Spark's workers collect garbage after every task; what is here before the fork is none, and need not be looked at.
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    preload(sys.argv[1] if len(sys.argv) > 1 else "pyspark.worker")
    manager()
