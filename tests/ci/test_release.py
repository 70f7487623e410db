"""A release is refused unless tag, version and changelog agree."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "check-release"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("check_release", str(SCRIPT))
    spec = importlib.util.spec_from_loader("check_release", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_a_dated_section_of_the_tagged_version_may_be_released(script: ModuleType) -> None:
    assert script.problems("v1.2.0", "1.2.0", "# Changelog\n\n## 1.2.0, 2027-01-31\n\n## 1.1.0, 2026-12-01\n") == []


@pytest.mark.parametrize(
    ("tag", "changelog"),
    [
        ("1.2.0", "## 1.2.0, 2027-01-31"),
        ("v1.3.0", "## 1.2.0, 2027-01-31"),
        ("v1.2.0", "## 1.2.0, not released yet"),
        ("v1.2.0", "## 1.1.0, 2026-12-01"),
        ("v1.2.0", "nothing"),
    ],
)
def test_anything_else_is_refused(script: ModuleType, tag: str, changelog: str) -> None:
    assert script.problems(tag, "1.2.0", changelog)
