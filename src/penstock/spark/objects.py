"""Finding a user's Python object by name: `handlers.py:resize`, or `shop.handlers:resize` for one that is installed.

What comes from a file travels to Spark's tasks by value: the machines of a cluster need not have the file. What comes
from an installed package is imported there, so it has to be installed there too.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from penstock.client.errors import UsageError, nearest


def load_module(name: str) -> ModuleType:
    """The module in a file (its name ends in .py), or an installed one."""
    if not name.endswith(".py"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is not None and not name.startswith(error.name):
                raise
            raise UsageError(f"there is no module {name!r}; a file is named with its ending: {name}.py") from None
    path = Path(name)
    if not path.is_file():
        raise UsageError(f"there is no file {name!r}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.parent.resolve()))  # its neighbors, as when it is run by itself
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[spec.name]
        raise
    finally:
        sys.path.pop(0)
    _travels_by_value(module)
    return module


def load_object(name: str) -> object:
    """`file.py:name` or `module:name`."""
    place, colon, attribute = name.rpartition(":")
    if not colon or not place or not attribute:
        raise UsageError(f"{name!r} must look like file.py:function or module:function")
    module = load_module(place)
    found: object = getattr(module, attribute, None)
    if found is None:
        guess = nearest(attribute, [n for n in vars(module) if not n.startswith("_")])
        raise UsageError(f"{place} has no {attribute!r}" + (f"; did you mean {guess!r}?" if guess else ""))
    return found


def _travels_by_value(module: ModuleType) -> None:
    if importlib.util.find_spec("pyspark") is not None:
        from pyspark import cloudpickle

        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
