"""What the cleaner process does to stay out of the way."""

from __future__ import annotations

import subprocess
import sys

import pytest

from penstock.log.cleaner.background import NICENESS

LOOK = """
import os
from penstock.log.cleaner.background import move_to_background
move_to_background()
print(os.nice(0), os.sched_getscheduler(0) == os.SCHED_BATCH)
try:
    print(open("/proc/self/autogroup").read().split()[-1])
except OSError:
    print("none")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the scheduler of Linux")
def test_process_and_group_are_nice_and_run_as_a_batch_job() -> None:
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, start_new_session=True)
    assert done.returncode == 0, done.stderr
    niceness, group = done.stdout.splitlines()
    assert niceness == f"{NICENESS} True"
    assert group in (str(NICENESS), "none")
