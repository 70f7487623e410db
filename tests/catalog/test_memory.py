"""What only the engine in memory does: a chosen cluster id, and failures when a test wants them."""

from __future__ import annotations

import pytest

from penstock.catalog.contract import CatalogError
from penstock.catalog.memory import MemoryCatalog


def test_the_cluster_id_is_handed_in_so_that_a_run_can_be_repeated() -> None:
    assert MemoryCatalog().cluster_id == MemoryCatalog().cluster_id
    assert MemoryCatalog("another").cluster_id == "another"


def test_changes_are_refused_with_the_reason_until_they_are_accepted_again() -> None:
    catalog = MemoryCatalog()
    catalog.refuse_changes("the disk is full")
    with pytest.raises(CatalogError, match="the disk is full"):
        catalog.allocate_producer_id_block()
    assert catalog.topics() == []
    catalog.accept_changes()
    assert catalog.allocate_producer_id_block() == range(1000)
