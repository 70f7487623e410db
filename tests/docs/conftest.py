"""Readers of the pages, and the check that they leave nothing out."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import Blocks
from tests.docs.reader import Reader


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    reader.close()


@pytest.fixture
def blocks(request: pytest.FixtureRequest) -> Blocks:
    """What the test has to carry out; see `carries_out`."""
    page, blocks = request.param
    return Blocks(page, blocks)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    result = yield
    blocks = pyfuncitem.funcargs.get("blocks")
    if isinstance(blocks, Blocks):
        assert blocks.left() == [], "the test has left blocks undone"
    return result
