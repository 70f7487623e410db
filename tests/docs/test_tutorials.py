"""The tutorials, done from top to bottom as they stand (but for ports)."""

from __future__ import annotations

import pytest

from tests.docs.blocks import Blocks, carries_out
from tests.docs.reader import Reader, follow


@pytest.mark.timeout(600)
@carries_out("tutorials/first-stream.md")
def test_the_first_stream(reader: Reader, blocks: Blocks) -> None:
    follow(reader, blocks)


@pytest.mark.timeout(600)
@carries_out("tutorials/first-queue.md")
def test_the_first_queue(reader: Reader, blocks: Blocks) -> None:
    follow(reader, blocks)


@pytest.mark.timeout(600)
@carries_out("tutorials/first-test.md")
def test_the_first_test(reader: Reader, blocks: Blocks) -> None:
    follow(reader, blocks)


@pytest.mark.spark
@pytest.mark.timeout(600)
@carries_out("tutorials/first-pipeline.md")
def test_the_first_pipeline(reader: Reader, blocks: Blocks) -> None:
    follow(reader, blocks)
