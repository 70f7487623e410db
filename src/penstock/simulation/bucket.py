"""The object store of a simulated cluster: what obstore offers for S3, over a server of the world.

An object is there as a whole or not at all. A PUT whose answer is lost, or whose client has given up, may still store
its object, even much later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from penstock.storage.objects.store import ObjectStore

if TYPE_CHECKING:
    from penstock.simulation.loop import Process
    from penstock.simulation.remote import Server

T = TypeVar("T")


class Bucket:
    """What is stored. Survives everything."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """The clock gives seconds since 1970."""
        self.objects: dict[str, tuple[bytes, float]] = {}
        """Contents, and when they were stored."""
        self.deleted: set[str] = set()
        self.counts: Counter[str] = Counter()
        """What was requested, by kind."""
        self.on_deleted: Callable[[str, float], object] | None = None
        """Called with each object that was deleted, and when it was stored."""
        self._clock = clock

    def put(self, key: str, data: bytes) -> None:
        self.counts[f"{_kind(key)} objects put"] += 1
        self.objects[key] = (data, self._clock())

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self.counts[f"{_kind(key)} objects read" + ("" if start else " from the beginning")] += 1
        if key not in self.objects:
            self.counts["reads of what is not there"] += 1
            raise FileNotFoundError(key)
        return self.objects[key][0][start : start + length]

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            _, stored_at = self.objects.pop(key, (b"", None))
            if stored_at is not None:
                self.deleted.add(key)
                if self.on_deleted is not None:
                    self.on_deleted(key, stored_at)

    def rot(self, key: str, position: int) -> None:
        """One bit of an object flips."""
        self.counts["bits rotten"] += 1
        data, at = self.objects[key]
        self.objects[key] = data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :], at

    def listed(self, prefix: str) -> list[dict[str, Any]]:
        self.counts["listings"] += 1
        return [
            {"path": key, "size": len(data), "last_modified": datetime.fromtimestamp(at, UTC)}
            for key, (data, at) in sorted(self.objects.items())
            if key.startswith(prefix.rstrip("/") + "/")
        ]

    def folders(self, prefix: str) -> list[str]:
        stem = prefix.rstrip("/") + "/"
        rests = [key.removeprefix(stem) for key in self.objects if key.startswith(stem)]
        return sorted({stem + rest.split("/")[0] for rest in rests if "/" in rest})


def _kind(key: str) -> str:
    """Bytes of commits, or a segment: see `key_space`."""
    return key.split("/")[1]


class Ask(Protocol):
    """Has a server do some work, whose name is told as well."""

    def __call__(self, what: str, work: Callable[[], T]) -> T: ...


class _Obstore:
    """The functions of `obstore`."""

    def __init__(self, bucket: Bucket, ask: Ask) -> None:
        self._bucket = bucket
        self._ask = ask

    def put(self, store: object, key: str, data: bytes | Iterator[bytes], **options: object) -> None:
        contents = data if isinstance(data, bytes) else b"".join(data)
        self._ask("put", lambda: self._bucket.put(key, contents))

    def get_range(self, store: object, key: str, *, start: int, length: int) -> bytes:
        return self._ask("get_range", lambda: self._bucket.get_range(key, start, length))

    def delete(self, store: object, keys: str | list[str]) -> None:
        self._ask("delete", lambda: self._bucket.delete([keys] if isinstance(keys, str) else list(keys)))

    def list_with_delimiter(self, store: object, prefix: str) -> dict[str, list[str]]:
        return {"common_prefixes": self._ask("folders", lambda: self._bucket.folders(prefix))}

    def list(self, store: object, prefix: str) -> Iterator[list[dict[str, Any]]]:
        yield self._ask("list", lambda: self._bucket.listed(prefix))


class SimulatedStore(ObjectStore):
    """The store as one process reaches it, or as whoever looks at it from outside."""

    def __init__(self, bucket: Bucket, ask: Ask) -> None:
        self._obstore = _Obstore(bucket, ask)
        self._store = self._bulk = self._reading = None
        self.shown = "s3://bucket"

    @classmethod
    def of(cls, process: Process, server: Server, bucket: Bucket) -> SimulatedStore:
        return cls(bucket, partial(server.ask, process))

    @classmethod
    def from_outside(cls, bucket: Bucket) -> SimulatedStore:
        """Without a way to it that could be slow or lost."""
        return cls(bucket, lambda what, work: work())
