"""Bytes that have a path and are on no disk: for libraries that read secrets from files only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def memory_file(content: bytes) -> Iterator[str]:
    """A path under which this process can read `content`. Raises NotImplementedError where there is no memfd."""
    if not hasattr(os, "memfd_create"):
        raise NotImplementedError("files in memory need Linux")
    descriptor = os.memfd_create("penstock", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
