"""The object store answers alike in memory, in a folder and on a real S3 server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.log.errors import StorageError
from penstock.storage.objects.store import PART_BYTES, PIECE_BYTES, ObjectMissing, ObjectStore, Patience, StoreError
from tests.s3_proxy import SlowLine
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
    store.delete(["c/list/1", "c/list/missing"])
    store.delete(["c/list/missing", "c/list/1"])
    assert [each.key for each in store.list("c/list")] == ["c/list/2"]


def test_the_names_below_a_prefix_are_listed_without_what_they_hold(store: ObjectStore) -> None:
    for key in ("c/names/a/1", "c/names/a/2", "c/names/b/1", "c/namesake/1"):
        store.put(key, [b"x"])
    assert sorted(store.folders("c/names/")) == ["a", "b"]
    assert store.folders("c/nothing/") == []


def test_a_large_object_is_put_in_parts_and_read_in_pieces(store: ObjectStore) -> None:
    size = 2 * PART_BYTES + 5
    part = bytes(range(256)) * 4096
    store.put_stream("c/large", size, iter([part] * (size // len(part)) + [b"end!!"]))
    pieces = list(store.read("c/large", 1, size - 1))
    assert max(map(len, pieces)) == PIECE_BYTES
    assert b"".join(pieces) == (part * (size // len(part)) + b"end!!")[1:]


def test_an_object_whose_source_fails_is_not_there(store: ObjectStore) -> None:
    def source() -> Iterator[bytes]:
        yield from [bytes(1 << 20)] * 12
        raise StorageError("the file is gone")

    with pytest.raises(StorageError, match="the file is gone"):
        store.put_stream("c/broken", 20 << 20, source())
    with pytest.raises(ObjectMissing):
        store.get("c/broken", 0, 1)


def open_over(line: SlowLine, patience: Patience, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    monkeypatch.setenv("AWS_ENDPOINT_URL", line.endpoint)
    return ObjectStore.open("s3://bucket/of/tests", patience)


def test_an_upload_may_take_longer_than_any_request_as_long_as_its_parts_arrive(
    s3: SeaweedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    pieces = [bytes([number]) * (1 << 20) for number in range(40)]
    with SlowLine(s3.environment["AWS_ENDPOINT_URL"], 30e6) as line:  # 1.4 s for all, half a second for two parts
        store = open_over(line, Patience(request=0.3, part=1.2), monkeypatch)
        store.put_stream("c/parts", len(pieces) << 20, iter(pieces))
        assert b"".join(store.read("c/parts", 0, len(pieces) << 20)) == b"".join(pieces)


def test_a_part_that_is_lost_is_sent_again_and_not_the_whole_object(
    s3: SeaweedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    pieces = [bytes([number]) * (1 << 20) for number in range(40)]
    with SlowLine(s3.environment["AWS_ENDPOINT_URL"], 400e6) as line:
        store = open_over(line, Patience(), monkeypatch)
        line.cut_at = 30 << 20
        store.put_stream("c/cut", len(pieces) << 20, iter(pieces))
        assert line.cut_at is None
        assert line.sent < (len(pieces) << 20) + 2 * PART_BYTES
        assert b"".join(store.read("c/cut", 0, len(pieces) << 20)) == b"".join(pieces)


def test_a_store_that_cannot_be_written_to_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file, not a folder")
    with pytest.raises(StorageError, match=r"--store file://.* cannot be used"):
        ObjectStore.open(f"file://{tmp_path}/store")


@pytest.mark.parametrize(
    ("right", "permission"), [("write", "s3:PutObject"), ("read", "s3:GetObject"), ("list", "s3:ListBucket")]
)
def test_credentials_that_lack_a_right_are_refused_with_the_right(
    s3: SeaweedServer, monkeypatch: pytest.MonkeyPatch, right: str, permission: str
) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    ObjectStore.open("s3://bucket/rights").check("c/check/1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", f"without-{right}")
    with pytest.raises(StorageError, match=rf"403.*have the right to {right}, in S3 {permission}\)$"):
        ObjectStore.open("s3://bucket/rights").check("c/check/1")


def test_a_store_that_keeps_what_it_was_told_to_delete_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ObjectStore.open(f"file://{tmp_path}/store")

    def refuse(keys: object) -> None:
        raise StoreError("cannot delete c/check/1: Access Denied")

    monkeypatch.setattr(store, "delete", refuse)
    with pytest.raises(StorageError, match=r"Access Denied.*have the right to delete, in S3 s3:DeleteObject\)$"):
        store.check("c/check/1")


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
