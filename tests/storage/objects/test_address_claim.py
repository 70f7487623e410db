"""An address of the object store belongs to one cluster."""

from __future__ import annotations

import pytest

from penstock.log.errors import StorageError
from penstock.storage.objects.address_claim import claim_address
from penstock.storage.objects.store import ObjectStore

ONE, OTHER = "AzAzD4eZR4GTjrKCTs6_qw", "gdtx3WmGQUqbtsM37tgzRQ"


@pytest.fixture
def store() -> ObjectStore:
    return ObjectStore.open("memory://")


def test_a_second_cluster_is_refused_with_what_to_do(store: ObjectStore) -> None:
    claim_address(store, ONE)
    with pytest.raises(StorageError, match=f"objects of another cluster, {ONE}: give this one a prefix of its own"):
        claim_address(store, OTHER)
    assert store.folders("") == [ONE], "it leaves no mark"


def test_the_brokers_of_one_cluster_claim_it_together_and_again(store: ObjectStore) -> None:
    for _ in range(3):
        claim_address(store, ONE)


@pytest.mark.parametrize("kind", ["wal", "segment"])
def test_objects_of_a_cluster_are_enough(store: ObjectStore, kind: str) -> None:
    store.put(f"{ONE}/{kind}/1-1-x/1", [b"records"])
    with pytest.raises(StorageError, match=ONE):
        claim_address(store, OTHER)


def test_what_is_not_of_a_cluster_may_be_there(store: ObjectStore) -> None:
    store.put("backups/wal/1", [b""])
    store.put(f"{ONE}/check/1", [b""])  # of a start that was refused
    claim_address(store, OTHER)


def test_clusters_with_prefixes_of_their_own_share_a_bucket(tmp_path: object) -> None:
    for name, cluster_id in (("one", ONE), ("other", OTHER)):
        claim_address(ObjectStore.open(f"file://{tmp_path}/{name}"), cluster_id)
