"""Have the kernel treat this process as work that nobody waits for.

Being nice is not enough on Linux. A process with a session of its own is also a scheduling group of its own
(`autogroup`), which counts in full against the broker's however nice its only member is; so the group is made as nice
as the process. And a task that wakes up, as the broker does for every request, may have to wait until the one that runs
has used up its slice, 3 ms by default and many times what a request takes; so the slice is made short (Linux 6.12 and
later; others take no notice).

It still gets its share of a machine that is always busy: a cleaner that never runs is what fills disks. The kernel
derives the priority of input and output from the niceness.
"""

from __future__ import annotations

import os
import platform
import struct

from penstock import portable

NICENESS = 10
_SLICE_NS = 100_000
_AUTOGROUP = "/proc/self/autogroup"
# struct sched_attr: size, policy, flags, nice, priority, runtime (the slice), deadline, period.
_SCHED_ATTR = struct.Struct("=IIQiIQQQ")
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}  # the C library has no function for it yet


def move_to_background() -> None:
    """As much of it as this system can do."""
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    try:
        with open(_AUTOGROUP, "w") as group:
            group.write(str(NICENESS))
    except OSError:
        pass  # Not Linux, or groups are made in another way there.
    _shorten_slice()


def _shorten_slice() -> None:
    number = _SCHED_SETATTR.get(platform.machine())
    if number is None or not hasattr(os, "SCHED_BATCH"):
        return
    wanted = _SCHED_ATTR.pack(_SCHED_ATTR.size, os.SCHED_BATCH, 0, NICENESS, 0, _SLICE_NS, 0, 0)
    syscall = portable.c_function("syscall")
    if syscall is not None:
        syscall(number, 0, wanted, 0)
