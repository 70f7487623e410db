"""Which mutants matter, and how they are recognised again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutation.packages import PACKAGES
from tests.mutation.sifting import change_between, read_reviewed

ROOT = Path(__file__).parents[2]
ORIGINAL = """
def xǁLocksǁadd__mutmut_orig(self, until):
    if until < 0:
        log.error("a lock that ends at %d", until)
        raise ValueError(f"{until} is in the past")
    assert until, "never"
    self.first = min(self.first, until)
    self.refused(until, InvalidRequest("No lock ends then."))
    self.ends.get(until, None)
    self.ends.get(until, 0)
    self.ends.pop(until, None)
    zip(self.ends, self.locks, strict=True)
"""


def mutated(before: str, after: str) -> str:
    assert before in ORIGINAL
    return ORIGINAL.replace("_orig", "_7").replace(before, after)


def test_a_change_is_known_by_its_function_and_its_lines() -> None:
    change = change_between("a.b.xǁLocksǁadd__mutmut_7", ORIGINAL, mutated("until < 0", "until <= 0"))
    assert change.key == ("a.b.Locks.add", "- if until < 0:", "+ if until <= 0:")
    assert not change.is_message


def test_a_class_whose_name_ends_with_an_x_keeps_it() -> None:
    change = change_between("a.b.xǁIndexǁadd__mutmut_1", "def add(): return 1", "def add(): return 2")
    assert change.function == "a.b.Index.add"


def test_a_function_of_a_module_has_its_plain_name() -> None:
    change = change_between(
        "a.b.x_add__mutmut_1", "def x_add__mutmut_orig(): return 1", "def x_add__mutmut_1(): return 2"
    )
    assert change.key == ("a.b.add", "- def add(): return 1", "+ def add(): return 2")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"a lock that ends at %d"', "None"),
        ('log.error("a lock that ends at %d", until)', 'log.error("a lock that ends at %d", )'),
        ("is in the past", "XXis in the pastXX"),
        ('"never"', '"NEVER"'),
        ('f"{until} is in the past"', "None"),
        ('"No lock ends then."', "None"),
        ('"No lock ends then."', '"XXNo lock ends then.XX"'),
    ],
)
def test_what_is_said_does_not_matter(before: str, after: str) -> None:
    assert change_between("a.b.xǁLocksǁadd__mutmut_7", ORIGINAL, mutated(before, after)).is_message


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("get(until, None)", "get(until, )"),
        ("strict=True", "strict=False"),
        ("self.locks, strict=True", "self.locks, "),
    ],
)
def test_a_default_that_is_named_does_not_matter(before: str, after: str) -> None:
    assert change_between("a.b.xǁLocksǁadd__mutmut_7", ORIGINAL, mutated(before, after)).is_message


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("raise ValueError(", "raise KeyError("),
        ("min(self.first, until)", "min(until)"),
        ("min(self.first, until)", "None"),
        ("log.error", "self.error"),
        ("InvalidRequest(", "InvalidRecordState("),
        ('InvalidRequest("No lock ends then.")', "None"),
        ("get(until, None)", "get(None)"),
        ("get(until, 0)", "get(until, )"),
        ("pop(until, None)", "pop(until, )"),
        ("zip(self.ends, self.locks", "zip(self.ends, None"),
    ],
)
def test_what_is_done_does(before: str, after: str) -> None:
    assert not change_between("a.b.xǁLocksǁadd__mutmut_7", ORIGINAL, mutated(before, after)).is_message


def test_reviewed_survivors_have_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "queues.txt"
    path.write_text("# Locks\na.b.Locks.add\n- if until <  0:\n+ if until <= 0:\nwhy: nothing ends at 0\n")
    assert read_reviewed(path) == {("a.b.Locks.add", "- if until < 0:", "+ if until <= 0:")}
    path.write_text("a.b.Locks.add\n- x\n+ y\n")
    with pytest.raises(ValueError, match="without a reason"):
        read_reviewed(path)
    assert read_reviewed(tmp_path / "none.txt") == set()


def test_the_core_is_there_with_its_tests() -> None:
    for name, package in PACKAGES.items():
        assert (ROOT / "src" / "penstock" / name).is_dir()
        for test in (*package.tests, *package.left_out):
            assert (ROOT / test.partition("::")[0]).exists(), test


def test_reviewed_survivors_are_of_packages_that_exist() -> None:
    for path in sorted((ROOT / "tests" / "mutation" / "reviewed").glob("*.txt")):
        assert path.stem in PACKAGES
        for function, *lines in read_reviewed(path):
            assert function.startswith(f"penstock.{path.stem}."), function
            assert all(line[:2] in ("- ", "+ ") for line in lines), lines
