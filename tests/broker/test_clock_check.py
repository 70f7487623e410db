"""A clock that is far off is refused, with both times and what to do."""

from __future__ import annotations

import pytest

from penstock.broker.clock_check import check_clock
from penstock.catalog.contract import CatalogError


def test_a_clock_that_is_an_hour_off_is_refused() -> None:
    with pytest.raises(CatalogError, match=r"3600 seconds behind .* \(1970-01-01 00:00:00 UTC here"):
        check_clock(3600.0, 0.0, "db")
    with pytest.raises(CatalogError, match="3600 seconds ahead of"):
        check_clock(0.0, 3600.0, "db")


def test_a_few_seconds_are_nothing() -> None:
    check_clock(30.0, 0.0, "db")
    check_clock(0.0, 30.0, "db")
