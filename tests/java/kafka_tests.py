"""Runs Apache Kafka's own client integration tests against Penstock: `python tests/java/kafka_tests.py [WHAT ...]`.

The harness that holds those tests is not part of this project. It is looked for in the folder that $KAFKA_TESTS names,
else beside the checkout. WHAT is a group (requests, consumer, share, rest), a class, or CLASS#METHOD.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BESIDE = ROOT.parent / "shared" / "tools" / "kafka-tests"
GROUPS = ["requests", "consumer", "share", "rest"]


def main() -> int:
    folder = Path(os.environ.get("KAFKA_TESTS", BESIDE))
    runner = folder / "run"
    if not runner.exists():
        print(
            f"Kafka's own tests are not at {folder}: set KAFKA_TESTS to the folder that holds their `run`.",
            file=sys.stderr,
        )
        return 2
    penstock = Path(sys.executable).parent / "penstock"
    environment = {"PENSTOCK": str(penstock), **os.environ}
    return subprocess.run([str(runner), *(sys.argv[1:] or GROUPS)], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
