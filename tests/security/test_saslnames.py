"""Names with `,` and `=` survive SASL messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.security.failures import MalformedToken
from penstock.security.saslnames import escape, unescape


@given(st.text())
def test_every_name_comes_back_and_holds_no_comma(name: str) -> None:
    assert unescape(escape(name)) == name
    assert "," not in escape(name)


@pytest.mark.parametrize("saslname", ["a=b", "=", "a=2", "a=2c", "=3E"])
def test_other_escapes_are_refused(saslname: str) -> None:
    with pytest.raises(MalformedToken):
        unescape(saslname)
