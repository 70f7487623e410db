"""Fuzzing that learns which inputs reach new code (atheris, libFuzzer): `make fuzz`, or

    python -m tests.fuzz.learn batch --seconds 60

It begins with the corpus of the target. `--keep` adds to it what has reached more. An input that fails is written to
`build/fuzz`, and belongs into the corpus with its fix.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
FOUND = Path("build") / "fuzz"
_INPUT_BYTES_MAX = 1024


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("targets", nargs="*")
    options.add_argument("--seconds", type=int, default=60)
    options.add_argument("--keep", action="store_true")
    options.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.here:
        return _learn(chosen.targets[0], chosen.seconds, chosen.keep)
    from tests.fuzz.targets import TARGETS

    failed = 0
    for name in chosen.targets or TARGETS:
        # A process each: libFuzzer ends the one that it runs in.
        command = [sys.executable, "-m", "tests.fuzz.learn", name, "--here", "--seconds", str(chosen.seconds)]
        failed |= subprocess.run(command + ["--keep"] * chosen.keep, check=False).returncode != 0
    return int(failed)


def _learn(name: str, seconds: int, keep: bool) -> int:
    import atheris

    with atheris.instrument_imports(include=["penstock"]):
        from tests.fuzz.targets import TARGETS, quiet
    quiet()
    corpus = CORPUS / name
    corpus.mkdir(parents=True, exist_ok=True)
    FOUND.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        folders = [str(corpus)] if keep else [scratch, str(corpus)]
        arguments = [
            name,
            f"-max_total_time={seconds}",
            f"-max_len={_INPUT_BYTES_MAX}",
            f"-artifact_prefix={FOUND / name}-",
            "-print_final_stats=1",
            "-verbosity=1",
            *folders,
        ]
        atheris.Setup(arguments, TARGETS[name])
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
