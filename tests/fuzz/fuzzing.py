"""Time-bounded fuzzing: a few seconds in the default run, as long as asked under the marker `long`.

Every run prints its seed with a failure; `PENSTOCK_FUZZ_SEED` repeats it. `PENSTOCK_FUZZ_SECONDS` sets the time of the
long run.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

DEFAULT_SECONDS = 2.0
LONG_SECONDS = float(os.environ.get("PENSTOCK_FUZZ_SECONDS", "300"))
_INTERESTING = (0, 1, 2, 0x7F, 0x80, 0x81, 0xFE, 0xFF)


def fuzz(seconds: float, *checks: Callable[[random.Random], None]) -> None:
    """Run the checks, each round with a seed of its own, until the time is up; a failing round names its seed."""
    seed = int(os.environ.get("PENSTOCK_FUZZ_SEED", random.SystemRandom().randrange(2**32)))
    stop = time.monotonic() + seconds
    while True:
        for check in checks:
            try:
                check(random.Random(seed))
            except BaseException as error:
                error.add_note(f"PENSTOCK_FUZZ_SEED={seed}")
                raise
        if time.monotonic() >= stop:
            return
        seed += 1


def mutated(source: random.Random, data: bytes | bytearray) -> bytearray:
    """`data` with a few bytes changed, cut out, doubled or put in."""
    changed = bytearray(data)
    for _ in range(source.randrange(1, 6)):
        at = source.randrange(len(changed) + 1)
        match source.randrange(6):
            case 0 if at < len(changed):
                changed[at] = source.choice(_INTERESTING)
            case 1 if at < len(changed):
                changed[at] ^= 1 << source.randrange(8)
            case 2:
                del changed[at : at + source.randrange(1, 9)]
            case 3:
                changed[at:at] = source.randbytes(source.randrange(1, 9))
            case 4:
                del changed[at:]
            case _:
                changed[at : at + 4] = source.choice(
                    [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0"]
                )
    return changed
