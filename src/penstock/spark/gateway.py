"""Starting the JVM of a local session without a warning that nobody can act on.

Spark starts Java with a module for vectors that is still in incubation, and Java says so on the standard error each
time, whatever its settings. What the JVM writes there is passed on, but for that line.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping

_WARNING = b"WARNING: Using incubator modules: jdk.incubator.vector\n"


def launch(settings: Mapping[str, str]) -> None:
    """Start the JVM that Spark's next session in this process uses, unless there is one."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return
    reading, writing = os.pipe()
    try:
        threading.Thread(target=_pass_on, args=(reading,), name="stderr of Spark's JVM", daemon=True).start()
        conf = SparkConf().setAll(list(settings.items()))
        SparkContext._ensure_initialized(gateway=launch_gateway(conf, {"stderr": writing}))
    finally:
        os.close(writing)


def _pass_on(reading: int) -> None:
    with open(reading, "rb") as lines:
        for line in lines:
            if line != _WARNING:
                os.write(2, line)
