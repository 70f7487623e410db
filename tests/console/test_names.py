from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.console.names import MalformedName, decode_name, encode_name


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_name_survives_an_address(name: str) -> None:
    segment = encode_name(name)
    assert decode_name(segment) == name
    assert not set(segment) & set("./%?#&\\ ")


@pytest.mark.parametrize("segment", ["a.b", "~2", "~2e", "~FF", "a/b", "~41"])
def test_a_segment_that_no_name_makes_is_refused(segment: str) -> None:
    with pytest.raises(MalformedName):
        decode_name(segment)
