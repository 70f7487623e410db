"""The object store answers alike in memory, in a folder and on a real S3 server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.log.errors import StorageError
from penstock.storage.objects.store import ObjectMissing, ObjectStore
from tests.seaweedfs import SeaweedServer


@pytest.fixture(scope="module")
def s3() -> Iterator[SeaweedServer]:
    with SeaweedServer() as server:
        yield server


@pytest.fixture(params=["memory", "file", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    if request.param == "s3":
        server = request.getfixturevalue("s3")
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        store = ObjectStore.open("s3://bucket/of/tests")
    else:
        store = ObjectStore.open("memory://" if request.param == "memory" else f"file://{tmp_path}/store")
    store.check("c/check/1")
    return store


def test_ranges_of_what_was_put_are_read_back(store: ObjectStore) -> None:
    store.put("c/wal/1", [b"abc", b"defg"])
    assert store.get("c/wal/1", 2, 3) == b"cde"
    store.put("c/wal/1", [b"abc", b"defg"])  # repeated under its key
    assert store.get("c/wal/1", 0, 7) == b"abcdefg"


def test_an_object_that_is_not_there_is_told_from_a_failure(store: ObjectStore) -> None:
    with pytest.raises(ObjectMissing, match="is not in"):
        store.get("c/wal/missing", 0, 1)


def test_objects_are_listed_with_their_age_and_deleted_once(store: ObjectStore) -> None:
    for name in ("1", "2"):
        store.put(f"c/list/{name}", [b"xyz"])
    found = {each.key: each for each in store.list("c/list")}
    assert set(found) == {"c/list/1", "c/list/2"}
    assert found["c/list/1"].size == 3
    assert -60 < found["c/list/1"].age_seconds < 600
    store.delete(["c/list/1"])
    store.delete(["c/list/1"])
    assert [each.key for each in store.list("c/list")] == ["c/list/2"]


def test_a_store_that_cannot_be_written_to_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file, not a folder")
    with pytest.raises(StorageError, match=r"--store file://.* cannot be used"):
        ObjectStore.open(f"file://{tmp_path}/store")


@pytest.mark.parametrize(
    "address",
    [
        "nonsense",
        "s3://",
        "s3:///prefix",
        "gs://",
        "file://",
        "file:///",
        "file://folder/of/here",
        "s3://key:secret@b/p",
    ],
)
def test_what_names_no_store_is_refused_with_the_form_of_an_address(address: str) -> None:
    with pytest.raises(StorageError, match=r"not the address of an object store: s3://BUCKET/PREFIX"):
        ObjectStore.open(address)


def test_a_slash_at_the_end_of_an_address_means_nothing(tmp_path: Path) -> None:
    assert ObjectStore.open(f"file://{tmp_path}/store/").shown == ObjectStore.open(f"file://{tmp_path}/store").shown


def test_failures_are_described_in_one_line_without_internals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    for address in "ftp://bucket/x", "s3://bucket/x":
        with pytest.raises(StorageError) as raised:
            ObjectStore.open(address).check("c/check/1")
        assert "Debug" not in str(raised.value)
        assert "\n" not in str(raised.value)
