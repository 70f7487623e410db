"""Objects of users, found by name."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest

from penstock.client.errors import UsageError
from penstock.spark.objects import load_object


def test_an_object_in_a_file_is_found_with_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_handlers.py").write_text("LIMIT = 3\n")
    (tmp_path / "some_handlers.py").write_text(
        "from neighbour_of_handlers import LIMIT\ndef take():\n    return LIMIT\n"
    )
    before = list(sys.path)
    take = load_object(f"{tmp_path}/some_handlers.py:take")
    assert callable(take)
    assert take() == 3
    assert sys.path == before


@pytest.mark.spark
def test_what_comes_from_a_file_travels_by_value(tmp_path: Path) -> None:
    from pyspark import cloudpickle

    (tmp_path / "far_away.py").write_text("def double(n):\n    return 2 * n\n")
    travelled = cloudpickle.dumps(load_object(f"{tmp_path}/far_away.py:double"))
    del sys.modules["far_away"]
    assert pickle.loads(travelled)(4) == 8


def test_an_installed_object_is_found_by_its_module() -> None:
    assert load_object("json:dumps") is __import__("json").dumps


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("handlers", "must look like"),
        ("no_such_module:f", "no_such_module.py"),
        ("nowhere.py:f", "no file"),
        ("json:dump_s", "did you mean 'dumps'"),
    ],
)
def test_what_is_not_there_is_named(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_object(name)
