"""Bytes that have a path and are on no disk: for libraries that read secrets from files only.

Only Linux has files in memory. Elsewhere it is a file that nobody else can read, in the system's folder for temporary
files, for as long as the library reads it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def memory_file(content: bytes) -> Iterator[str]:
    """A path under which this process can read `content`."""
    if not hasattr(os, "memfd_create"):
        with tempfile.TemporaryDirectory(prefix="penstock-") as folder:  # readable by its owner alone
            path = os.path.join(folder, "content")
            with open(path, "wb") as file:
                file.write(content)
            yield path
        return
    descriptor = os.memfd_create("penstock", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
