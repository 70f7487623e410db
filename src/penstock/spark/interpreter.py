"""The Python that Spark starts its workers with, made to start fast.

Spark puts its own copy of PySpark, a zip of sources, in front of the module path of every Python process that it
starts. Python cannot keep compiled code for what it imports from a zip, so each of those processes compiles PySpark
anew: half a second of a core each, and a first query starts six of them. Where PySpark was installed by pip, as it is
wherever `session()` runs locally, the very same sources lie in site-packages, with compiled code beside them. A small
script that stands in for the interpreter takes the zips out of the path and runs the interpreter itself; or, where a
process waits that has everything imported already, has that one forked (see `forking`).
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from penstock.spark.java import cache_folder, write_script

VARIABLES = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
"""What names the interpreter. Spark plans with the second, where there is one, and runs tasks with the first."""

_CLIENT = Path(__file__).with_name("forked.py")
_SHIM = """#!/bin/sh
set -f
kept=
IFS=:
for entry in $PYTHONPATH; do
    case "$entry" in
        "{spark}"/*) ;;
        *) kept="$kept${{kept:+:}}$entry" ;;
    esac
done
export PYTHONPATH="$kept"
unset IFS
if [ -n "$PENSTOCK_SPARK_FORKING" ] && [ "$1" = -m ]; then
    exec "{python}" -I -S "{client}" "$@"
fi
exec "{python}" "$@"
"""


def choose_interpreter(environment: Mapping[str, str], *, local: bool) -> str:
    """The interpreter for workers: the script where it is of use, else the one that runs now."""
    spark = installed_spark()
    # A path with a quote, a dollar or the like in it would have to be quoted; nobody has one.
    fit = spark is not None and not set('"$`\\') & set(f"{spark}{sys.executable}{_CLIENT}")
    if not local or os.name != "posix" or spark is None or not fit:
        return sys.executable
    home = environment.get("SPARK_HOME")
    if home and Path(home).resolve() != spark.resolve():
        return sys.executable  # another Spark, with another PySpark
    with suppress(OSError):
        return str(make_shim(sys.executable, spark, cache_folder(environment)))
    return sys.executable


def is_shim(interpreter: str, environment: Mapping[str, str]) -> bool:
    """Whether an interpreter is a script of ours, which is of no use on other machines."""
    return Path(interpreter).parent == cache_folder(environment) / "python"


def make_shim(python: str, spark: Path, cache: Path) -> Path:
    text = _SHIM.format(spark=spark, python=python, client=_CLIENT)
    # Environments share the folder, so a script is named after what is in it.
    script = cache / "python" / f"python-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    write_script(script, text)
    return script


def installed_spark() -> Path | None:
    found = find_spec("pyspark")
    if found is None or not found.origin:
        return None
    spark = Path(found.origin).parent
    return spark if (spark / "python" / "lib" / "pyspark.zip").is_file() else None
