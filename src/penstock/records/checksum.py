"""CRC-32C from the package `crc32c`, which uses the processor's own instruction for it.

The package looks up its version number when it is imported, for which it loads some sixty modules that a broker never
needs: a tenth of its time to start. Only the extension module inside is wanted, so that is what is loaded, if it is
where it is known to be.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import TypeAlias

_Checksum: TypeAlias = Callable[[bytes | bytearray | memoryview], int]


def _find() -> _Checksum:
    package = PathFinder.find_spec("crc32c")
    extension = PathFinder.find_spec("_crc32c", package.submodule_search_locations) if package else None
    if extension is None or extension.loader is None:
        from crc32c import crc32c as from_package

        return from_package
    module = module_from_spec(extension)
    extension.loader.exec_module(module)
    checksum: _Checksum = module.crc32c
    return checksum


crc32c = _find()
