"""An archive of Spark's classes for the JVM, so that it does not read them from 280 jars and verify them every time.

Java can keep classes as it has them in memory, and map them when it starts ("class data sharing"): the session is there
two seconds sooner, and the first query takes a second less of a core for its planning. The archive belongs to one Java
and one Spark. It is recorded by the first local session, when its JVM ends (a second or two of work, after the program
has ended, and 160 MB in the cache folder), and used by all sessions after it. Java checks that an archive fits and
goes on without it where it does not.

A JVM that is killed while it records leaves half a file. Java writes the head of an archive last, so what has one is
whole. That is why an archive is recorded under a name of its own, and gets the one that is used in a later session.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path

RECORDS = "ArchiveClassesAtExit"
"""The argument with which a JVM records."""

_BASE = "lib/server/classes.jsa"  # Java's own archive, on which ours builds; small Javas come without
_MODULES = "lib/modules"
_MAGIC = bytes.fromhex("a8ab0bf0")
_QUIET = "-Xlog:cds*=off"  # Java tells of every class that it cannot keep
_UNUSED_S = 30 * 24 * 3600.0


def archive_options(java_home: Path, spark: Path, cache: Path) -> str:
    """Arguments for Java that use the archive, or record it; "" where there can be none."""
    if not (java_home / _BASE).is_file():
        return ""
    folder = cache / "classes"
    with suppress(OSError):
        archive = folder / f"{_fingerprint(java_home, spark)}.jsa"
        folder.mkdir(parents=True, exist_ok=True)
        _adopt(archive)
        if archive.is_file():
            os.utime(archive)
            return _arguments("SharedArchiveFile", archive)
        _remove_unused(folder)
        return _arguments(RECORDS, archive.with_suffix(f".{os.getpid()}"))
    return ""


def _arguments(option: str, archive: Path) -> str:
    # Spark cuts the text at blanks, and a comma or a quote would need more care than a cache is worth.
    return "" if set(" ,\"'\\%") & set(str(archive)) else f"-XX:{option}={archive} {_QUIET}"


def _fingerprint(java_home: Path, spark: Path) -> str:
    modules, jars = (java_home / _MODULES).stat(), (spark / "jars").stat()
    parts = (java_home.resolve(), modules.st_size, modules.st_mtime_ns, spark.resolve(), jars.st_mtime_ns)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _adopt(archive: Path) -> None:
    """Give the name that is used to an archive that was recorded."""
    for recorded in archive.parent.glob(f"{archive.stem}.*"):
        if recorded != archive:
            with recorded.open("rb") as file:
                is_whole = file.read(len(_MAGIC)) == _MAGIC
            if is_whole:
                recorded.replace(archive)


def _remove_unused(folder: Path) -> None:
    for path in folder.iterdir():
        if time.time() - path.stat().st_mtime > _UNUSED_S:
            path.unlink(missing_ok=True)
