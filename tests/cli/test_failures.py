"""Texts of errors become sentences, and names stay as their owners spell them."""

from __future__ import annotations

import pytest

from penstock.cli.failures import nearest, sentence


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cannot create x", "Cannot create x"),
        ("the catalog is damaged", "The catalog is damaged"),
        ("data/folder has no meta.properties", "data/folder has no meta.properties"),
        ("payments-1 is in two folders", "payments-1 is in two folders"),
        ("nonsense can be reached", "nonsense can be reached"),
        ("kafka: it is closed", "kafka: it is closed"),
    ],
)
def test_only_words_of_our_own_get_a_capital(text: str, shown: str) -> None:
    assert sentence(text) == shown


def test_the_nearest_name_is_found_unless_none_is_near() -> None:
    assert nearest("produec", ["consume", "produce"]) == "produce"
    assert nearest("xyz", ["consume", "produce"]) is None
