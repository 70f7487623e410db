"""The object store of a simulated cluster: what obstore offers for S3, over a server of the world.

An object is there as a whole or not at all. A PUT whose answer is lost, or whose client has given up, may still store
its object, even much later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from penstock.simulation.remote import Server
from penstock.storage.objects.store import ObjectStore

if TYPE_CHECKING:
    from penstock.simulation.loop import Process

P = ParamSpec("P")
T = TypeVar("T")


class Bucket:
    """What is stored. Survives everything."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """The clock gives seconds since 1970."""
        self.objects: dict[str, tuple[bytes, float]] = {}
        """Contents, and when they were stored."""
        self.deleted: set[str] = set()
        self._clock = clock

    def put(self, key: str, data: bytes) -> None:
        self.objects[key] = (data, self._clock())

    def get_range(self, key: str, start: int, length: int) -> bytes:
        if key not in self.objects:
            raise FileNotFoundError(key)
        return self.objects[key][0][start : start + length]

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            if self.objects.pop(key, None) is not None:
                self.deleted.add(key)

    def listed(self, prefix: str) -> list[dict[str, Any]]:
        return [
            {"path": key, "size": len(data), "last_modified": datetime.fromtimestamp(at, UTC)}
            for key, (data, at) in sorted(self.objects.items())
            if key.startswith(prefix.rstrip("/") + "/")
        ]

    def folders(self, prefix: str) -> list[str]:
        stem = prefix.rstrip("/") + "/"
        rests = [key.removeprefix(stem) for key in self.objects if key.startswith(stem)]
        return sorted({stem + rest.split("/")[0] for rest in rests if "/" in rest})


class _Obstore:
    """The functions of `obstore`, for one process."""

    def __init__(self, server: Server, bucket: Bucket, process: Process) -> None:
        self._server = server
        self._bucket = bucket
        self._process = process

    def _ask(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._server.ask(self._process, work.__name__, partial(work, *args, **kwargs))

    def put(self, store: object, key: str, data: bytes | Iterator[bytes], **options: object) -> None:
        self._ask(self._bucket.put, key, data if isinstance(data, bytes) else b"".join(data))

    def get_range(self, store: object, key: str, *, start: int, length: int) -> bytes:
        return self._ask(self._bucket.get_range, key, start, length)

    def delete(self, store: object, keys: str | list[str]) -> None:
        self._ask(self._bucket.delete, [keys] if isinstance(keys, str) else list(keys))

    def list_with_delimiter(self, store: object, prefix: str) -> dict[str, list[str]]:
        return {"common_prefixes": self._ask(self._bucket.folders, prefix)}

    def list(self, store: object, prefix: str) -> Iterator[list[dict[str, Any]]]:
        yield self._ask(self._bucket.listed, prefix)


class SimulatedStore(ObjectStore):
    """The store as one process reaches it."""

    def __init__(self, server: Server, bucket: Bucket, process: Process) -> None:
        self._obstore = _Obstore(server, bucket, process)
        self._store = self._bulk = self._reading = None
        self.shown = "s3://bucket"
