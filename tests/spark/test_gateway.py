"""What the JVM of a session prints, as it reaches the user."""

from __future__ import annotations

import subprocess
import sys


def test_all_that_java_prints_is_passed_on_but_for_the_warning_about_incubation() -> None:
    printed = "before\nWARNING: Using incubator modules: jdk.incubator.vector\nException in thread main\nno newline"
    program = (
        f"import os; from penstock.spark.gateway import _pass_on; r, w = os.pipe(); os.write(w, {printed.encode()!r}); "
        "os.close(w); _pass_on(r)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stderr == "before\nException in thread main\nno newline"
