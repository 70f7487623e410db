"""Takes away what an operating system does not have, before anything else is imported.

With this folder in PYTHONPATH and PENSTOCK_TEST_WITHOUT=macos or windows, Penstock runs on what is left: `portable`
then chooses the ways that it would choose there. `make test-portable` runs the default tests like that.
"""

import mmap
import os
import socket
import sys
import time

_MACOS = (
    (os, "RWF_NOWAIT"),
    (os, "fdatasync"),
    (os, "memfd_create"),
    (os, "SCHED_BATCH"),
    (socket, "MSG_MORE"),
    (time, "CLOCK_BOOTTIME"),
)
_WINDOWS = (
    *_MACOS,
    (os, "preadv"),
    (os, "pread"),
    (os, "pwrite"),
    (os, "sendfile"),
    (os, "nice"),
    (os, "statvfs"),
    (mmap, "MAP_ANONYMOUS"),
)

without = os.environ.get("PENSTOCK_TEST_WITHOUT")
for _module, _name in {"macos": _MACOS, "windows": _WINDOWS}.get(without or "", ()):
    if hasattr(_module, _name):
        delattr(_module, _name)
if without == "windows":
    sys.modules["resource"] = None  # type: ignore[assignment]
if without:
    sys.modules["uvloop"] = None  # type: ignore[assignment]
