"""The process from which Spark forks its Python workers, with the heavy work done once, before the first fork.

Spark starts one such process per kind of worker. Only the kind that runs tasks decodes records; the others, which plan,
are few and short, and should start as fast as they can.
"""

from __future__ import annotations

import gc
import socket
import sys

import pyspark.daemon


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


def serve() -> None:
    """Spark's own daemon, but its idle workers end without a word when Spark goes away.

    Spark's workers take the end of their connection for an error and print where they were, while they are being
    killed: a session that stops leaves a few lines of a traceback on the terminal, or only the first one.
    """
    work = pyspark.daemon.worker

    def work_unless_closed(connection: socket.socket, authenticated: bool) -> int:
        # A worker waits here for its next task. What is not 0 makes it leave.
        return work(connection, authenticated) if connection.recv(1, socket.MSG_PEEK) else 1

    pyspark.daemon.worker = work_unless_closed
    pyspark.daemon.manager()


if __name__ == "__main__":
    preload(sys.argv[1] if len(sys.argv) > 1 else "pyspark.worker")
    serve()
