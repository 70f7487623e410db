"""The object store, as far as the engine needs it: put, ranged get, list, delete. Plain PUTs, nothing conditional.

`s3://bucket/prefix`, `gs://`, `az://`, `file:///path` and, for tests, `memory://` are obstore's. Credentials and
endpoints come from the environment (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, …), never from the address.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from penstock.log.errors import StorageError

_TIMEOUT = "20s"
_RETRIES = {"max_retries": 2}
_SECRETS = ("@",)
_IN_MEMORY = "memory://"
_PART_BYTES = 8 << 20


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

    def __init__(self, store: Any, shown: str) -> None:
        import obstore

        self._obstore = obstore
        self._store = store
        self.shown = shown
        self.is_forgetful = shown.startswith(_IN_MEMORY)
        """Whether objects are gone with this process."""

    @classmethod
    def open(cls, url: str) -> ObjectStore:
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
            options: dict[str, Any] = {"timeout": _TIMEOUT, "connect_timeout": "3s"}
            if os.environ.get("AWS_ENDPOINT_URL", os.environ.get("AWS_ENDPOINT", "")).startswith("http://"):
                options["allow_http"] = True
            return cls(obstore.store.from_url(url, client_options=options, retry_config=_RETRIES), url)
        except Exception as error:
            raise StorageError(f"--store {url} cannot be used: {_one_line(error)}") from error

    def check(self, key: str) -> None:
        """Make sure that objects can be written, read and removed. Raises StorageError with what to do."""
        try:
            self.put(key, [b"penstock"])
            if self.get(key, 0, 8) != b"penstock":
                raise StoreError("what was written is not what is read")
            self.delete([key])
        except StoreError as error:
            raise StorageError(
                f"the store {self.shown} cannot be used: {error} (check the bucket, the credentials in the environment "
                "and that they may read, write, list and delete)"
            ) from error

    def put(self, key: str, parts: Sequence[bytes]) -> None:
        try:
            self._obstore.put(self._store, key, parts[0] if len(parts) == 1 else b"".join(parts), use_multipart=False)
        except Exception as error:
            raise StoreError(f"cannot write {key}: {_one_line(error)}") from error

    def put_stream(self, key: str, parts: Iterator[bytes]) -> None:
        """Store what is too large for memory; an object is there as a whole or not at all."""
        try:
            self._obstore.put(self._store, key, parts, use_multipart=True, chunk_size=_PART_BYTES, max_concurrency=2)
        except StorageError:
            raise
        except Exception as error:
            raise StoreError(f"cannot write {key}: {_one_line(error)}") from error

    def get(self, key: str, position: int, size: int) -> bytes:
        """Exactly `size` bytes."""
        if not size:
            return b""
        try:
            data = bytes(self._obstore.get_range(self._store, key, start=position, length=size))
        except FileNotFoundError as error:
            raise ObjectMissing(f"{key} is not in {self.shown}") from error
        except Exception as error:
            raise StoreError(f"cannot read {key}: {_one_line(error)}") from error
        if len(data) != size:
            raise StoreError(f"{key} ends before byte {position + size}")
        return data

    def delete(self, keys: Sequence[str]) -> None:
        """Objects that are gone already count as deleted."""
        for key in keys:
            try:
                self._obstore.delete(self._store, key)
            except FileNotFoundError:
                continue
            except Exception as error:
                raise StoreError(f"cannot delete {key}: {_one_line(error)}") from error

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
