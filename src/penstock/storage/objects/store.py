"""The object store, as far as the engine needs it: put, ranged get, list, delete. Plain PUTs, nothing conditional.

`s3://bucket/prefix`, `gs://`, `az://`, `file:///path` and, for tests, `memory://` are obstore's. Credentials and
endpoints come from the environment (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, …), never from the address.

**Deadlines.** A small request has 20 seconds in all. What is large has no deadline as a whole, only one for each step
forward: a large object is put in parts, each of which has a minute and is repeated by itself, with growing pauses; a
read goes on as long as bytes arrive.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Any, NamedTuple

from penstock.log.errors import StorageError

PART_BYTES = 8 << 20
"""A larger object is put in parts of this size."""
PIECE_BYTES = 4 << 20
"""How much of an object `read` has in memory."""
_PARTS_AT_A_TIME = 2
_DELETED_AT_A_TIME = 1000
_SECRETS = ("@",)
_IN_MEMORY = "memory://"
_CONTENTS = b"penstock"
"""Of the object with which a store is checked."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for a store, in seconds."""

    request: float = 20.0
    connect: float = 3.0
    part: float = 60.0
    """For one part of a large object."""
    silence: float = 10.0
    """For the next bytes of an object that is read."""
    outage: float = 180.0
    """How long a part is repeated before the whole object is given up."""

    def quick(self) -> dict[str, Any]:
        return _client(timeout=self.request, connect_timeout=self.connect)

    def bulk(self) -> dict[str, Any]:
        return _client(timeout=self.part, connect_timeout=self.connect)

    def reading(self) -> dict[str, Any]:
        return _client(timeout=24 * 3600, connect_timeout=self.connect, read_timeout=self.silence)


def _client(**seconds: float) -> dict[str, Any]:
    options: dict[str, Any] = {name: timedelta(seconds=value) for name, value in seconds.items()}
    if os.environ.get("AWS_ENDPOINT_URL", os.environ.get("AWS_ENDPOINT", "")).startswith("http://"):
        options["allow_http"] = True
    return options


class StoreError(StorageError):
    """The object store has failed or does not answer. Worth another try."""


class ObjectMissing(StoreError):
    """There is no such object."""


class Listed(NamedTuple):
    key: str
    size: int
    age_seconds: float


class ObjectStore:
    """Calls block and may come from any thread. Keys are relative to the address."""

    def __init__(self, store: Any, shown: str, *, bulk: Any = None, reading: Any = None) -> None:
        """`bulk` and `reading` are the same store with other deadlines."""
        import obstore

        self._obstore = obstore
        self._store = store
        self._bulk = bulk if bulk is not None else store
        self._reading = reading if reading is not None else store
        self.shown = shown
        self.is_forgetful = shown.startswith(_IN_MEMORY)
        """Whether objects are gone with this process."""

    @classmethod
    def open(cls, url: str, patience: Patience | None = None) -> ObjectStore:
        """Raises StorageError with what to do."""
        url = url if url == _IN_MEMORY else url.rstrip("/")
        scheme, _, rest = url.partition("://")
        bucket, _, path = rest.partition("/")
        is_complete = url == _IN_MEMORY or (bool(path) and not bucket if scheme == "file" else bool(bucket))
        if not is_complete or any(secret in bucket for secret in _SECRETS):
            raise StorageError(
                "--store is not the address of an object store: s3://BUCKET/PREFIX, gs://, az:// or file:///PATH, "
                "with credentials in the environment"
            )
        try:
            import obstore.store
        except ImportError as error:
            raise StorageError(f"--store needs obstore ({error}): pip install 'penstock[cluster]'") from error
        try:
            if scheme == "memory":
                return cls(obstore.store.MemoryStore(), url)
            if scheme == "file":
                os.makedirs(rest, exist_ok=True)
                return cls(obstore.store.LocalStore(rest, mkdir=True), url)
            bounds = patience if patience is not None else Patience()
            few, many = {"max_retries": 2}, {"max_retries": 30, "retry_timeout": timedelta(seconds=bounds.outage)}
            quick, bulk, reading = (
                obstore.store.from_url(url, client_options=options, retry_config=retries)
                for options, retries in ((bounds.quick(), few), (bounds.bulk(), many), (bounds.reading(), few))
            )
            return cls(quick, url, bulk=bulk, reading=reading)
        except Exception as error:
            raise StorageError(f"--store {url} cannot be used: {_one_line(error)}") from error

    def check(self, key: str) -> None:
        """Make sure that objects can be written, read, listed and deleted below the key's folder.

        Raises StorageError with what to do, and with the right that is missing if it is one.
        """
        folder = key.rpartition("/")[0] + "/"
        right, permission = "write", "s3:PutObject"
        try:
            self.put(key, [_CONTENTS])
            right, permission = "read", "s3:GetObject"
            if self.get(key, 0, len(_CONTENTS)) != _CONTENTS:
                raise StoreError(f"{key} was written, and something else is read")
            right, permission = "list", "s3:ListBucket"
            if all(found.key != key for found in self.list(folder)):
                raise StoreError(f"{key} was written, and is not listed below {folder}")
            right, permission = "delete", "s3:DeleteObject"
            self.delete([key])
        except StoreError as error:
            raise StorageError(
                f"the store {self.shown} cannot be used: {error} (check its address, and that the credentials in the "
                f"environment have the right to {right}, in S3 {permission})"
            ) from error

    def put(self, key: str, parts: Sequence[bytes]) -> None:
        try:
            self._obstore.put(self._store, key, parts[0] if len(parts) == 1 else b"".join(parts), use_multipart=False)
        except Exception as error:
            raise StoreError(f"cannot write {key}: {_one_line(error)}") from error

    def put_stream(self, key: str, size: int, parts: Iterable[bytes]) -> None:
        """Store what may be too large for memory; an object is there as a whole or not at all."""
        if size <= PART_BYTES:
            return self.put(key, list(parts))
        try:
            self._obstore.put(
                self._bulk,
                key,
                iter(parts),
                use_multipart=True,
                chunk_size=PART_BYTES,
                max_concurrency=_PARTS_AT_A_TIME,
            )
        except (StorageError, OSError) as error:
            if isinstance(error, StorageError) or error.errno is not None:
                raise  # what the parts come from has failed
            raise StoreError(f"cannot write {key}: {_one_line(error)}") from error
        except Exception as error:
            raise StoreError(f"cannot write {key}: {_one_line(error)}") from error

    def get(self, key: str, position: int, size: int) -> bytes:
        """Exactly `size` bytes."""
        if not size:
            return b""
        try:
            data = bytes(self._obstore.get_range(self._reading, key, start=position, length=size))
        except FileNotFoundError as error:
            raise ObjectMissing(f"{key} is not in {self.shown}") from error
        except Exception as error:
            raise StoreError(f"cannot read {key}: {_one_line(error)}") from error
        if len(data) != size:
            raise StoreError(f"{key} ends before byte {position + size}")
        return data

    def read(self, key: str, position: int, size: int) -> Iterator[bytes]:
        """The same, piece by piece."""
        for at in range(position, position + size, PIECE_BYTES):
            yield self.get(key, at, min(PIECE_BYTES, position + size - at))

    def delete(self, keys: Iterable[str]) -> None:
        """Many with each request. Objects that are gone already count as deleted."""
        waiting = iter(keys)
        while some := list(islice(waiting, _DELETED_AT_A_TIME)):
            try:
                self._obstore.delete(self._store, some)
            except FileNotFoundError:
                self._delete_each(some)
            except Exception as error:
                raise StoreError(f"cannot delete {some[0]} and {len(some) - 1} others: {_one_line(error)}") from error

    def _delete_each(self, keys: Sequence[str]) -> None:
        for key in keys:
            try:
                self._obstore.delete(self._store, key)
            except FileNotFoundError:
                continue
            except Exception as error:
                raise StoreError(f"cannot delete {key}: {_one_line(error)}") from error

    def folders(self, prefix: str) -> list[str]:
        """What follows the prefix, which ends with a slash, in the keys below it, up to the next slash."""
        try:
            found = self._obstore.list_with_delimiter(self._store, prefix=prefix)["common_prefixes"]
        except FileNotFoundError:
            return []
        except Exception as error:
            raise StoreError(f"cannot list {prefix}: {_one_line(error)}") from error
        return [each.rstrip("/").rpartition("/")[2] for each in found]

    def list(self, prefix: str) -> Iterator[Listed]:
        now = time.time()
        try:
            for found in self._obstore.list(self._store, prefix=prefix):
                for each in found:
                    yield Listed(each["path"], each["size"], now - each["last_modified"].timestamp())
        except FileNotFoundError:
            return
        except Exception as error:
            raise StoreError(f"cannot list {prefix}: {_one_line(error)}") from error


def _one_line(error: BaseException) -> str:
    """Without what is for the library's developers, and without the page that came with a refusal."""
    text = str(error)
    for appendix in ("Debug source:", "<?xml", "<html"):
        text = text.partition(appendix)[0]
    text = " ".join(text.split()).removesuffix(":")
    return text[:300] or type(error).__name__
