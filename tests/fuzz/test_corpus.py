"""Every input that a fuzzer has found worth keeping is understood, or refused by name."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.fuzz.learn import CORPUS
from tests.fuzz.targets import TARGETS


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logger = logging.getLogger("penstock")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_is_understood_or_refused(name: str) -> None:
    inputs = sorted((CORPUS / name).iterdir())
    assert inputs, f"tests/fuzz/corpus/{name} is empty"
    for path in inputs:
        try:
            TARGETS[name](path.read_bytes())
        except BaseException as error:
            error.add_note(f"with {path}")
            raise


def test_every_folder_of_the_corpus_belongs_to_a_target() -> None:
    assert {path.name for path in CORPUS.iterdir()} == TARGETS.keys()
