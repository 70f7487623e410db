"""Opens an image, and looks whether everything that was promised before the power cut is there."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Iterable
from pathlib import Path

from penstock.broker.foundation import CATALOG_FILE
from penstock.catalog.sqlite import SqliteCatalog
from penstock.client.consumer import Consumer
from penstock.client.share_consumer import ShareConsumer
from penstock.records.batch import iter_headers
from penstock.records.record import iter_batches_records
from penstock.storage.checkpoint import BOOT_ID
from penstock.storage.local import LocalStorage
from penstock.testing import Broker
from tests.images.images import Images
from tests.images.load import CONFIGS, GROUP, JOBS, STREAM, Loaded, Promise

_NOW_MS = 1_800_000_000_000


class Opener:
    """Builds images of a load at random steps, and opens them."""

    def __init__(self, loaded: Loaded, scratch: Path) -> None:
        self._loaded = loaded
        self._images = Images(loaded.recording)
        self._scratch = scratch

    def broken_promises(self, seed: int) -> list[str]:
        """Open one image with the catalog and the storage engine alone, and read every log to its end."""
        with self._image(seed) as (folder, promises):
            topics = _topics(folder)
            found = self._read_logs(folder)
        written = [each for each in promises if each.kind in ("record", "transaction")]
        return [f"image {seed}: {text}" for text in _broken_changes(topics, promises)] + [
            f"image {seed}: {value[:20]!r} of {each.topic} at {each.offset} was promised at step {each.since}"
            for each in written
            for value in each.values
            if value not in found[each.topic].values()
            or (each.kind == "record" and found[each.topic].get(each.offset) != value)
        ]

    def _read_logs(self, folder: Path) -> dict[str, dict[int, bytes]]:
        storage = LocalStorage(folder, lambda: _NOW_MS, lambda callback: None, lambda error: None)
        assert storage.may_have_lost_writes
        logs = [storage.open_log(*each) for each in self._loaded.logs]
        storage.opened()
        found: dict[str, dict[int, bytes]] = {}
        for log in logs:
            values = found.setdefault(log.topic, {})
            position = log.log_start_offset
            while position < log.high_watermark:
                data = log.read(position, 1 << 20).read()
                for record in iter_batches_records(data):
                    values[record.offset] = bytes(record.value or b"")
                position = max(header.next_offset for _, header in iter_headers(data))
        storage.close()
        return found

    def broken_promises_of_a_broker(self, seed: int) -> list[str]:
        """Start a broker on one image, and ask it for everything that it has promised."""
        with self._image(seed) as (folder, promises), Broker(CONFIGS, data=folder) as broker:
            return [f"image {seed}: {text}" for text in asyncio.run(_ask(broker.bootstrap_servers, promises))]

    def _image(self, seed: int) -> _Image:
        chance = random.Random(seed)
        steps = self._loaded.recording.steps
        end = chance.randint(0, len(steps))
        promises = [each for each in self._loaded.promises if each.since <= end]
        return _Image(self._images, self._scratch / f"image-{seed}", end, chance, promises)


class _Image:
    def __init__(self, images: Images, folder: Path, end: int, chance: random.Random, promises: list[Promise]) -> None:
        self._images, self._folder, self._end, self._chance = images, folder, end, chance
        self._promises = promises

    def __enter__(self) -> tuple[Path, list[Promise]]:
        self._folder.mkdir()
        self._images.write(self._folder, self._end, self._chance)
        # The kernel that reads it is another one than the kernel that wrote it.
        (self._folder / BOOT_ID).write_bytes(b"another boot")
        return self._folder, self._promises

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _topics(folder: Path) -> set[str]:
    catalog = SqliteCatalog.open(folder / CATALOG_FILE)
    try:
        return {row.name for row in catalog.topics()}
    finally:
        catalog.close()


def _broken_changes(topics: set[str], promises: Iterable[Promise]) -> list[str]:
    return [
        f"topic {each.topic} was {each.kind}, and that is not so"
        for each in promises
        if each.kind in ("created", "deleted") and (each.kind == "created") != (each.topic in topics)
    ]


async def _ask(bootstrap: str, promises: list[Promise]) -> list[str]:
    broken = await _missing_values(bootstrap, promises)
    async with Consumer(bootstrap_servers=bootstrap, group_id=GROUP) as consumer:
        [committed] = (await consumer.committed([(STREAM, 0)])).values()
    promised = max((each.offset for each in promises if each.kind == "commit"), default=-1)
    if (committed.offset if committed is not None else -1) < promised:
        broken.append(f"the offset {promised} was committed, and {committed} is")
    accepted = {each.offset for each in promises if each.kind == "accept"}
    async with ShareConsumer(bootstrap_servers=bootstrap, group_id="workers") as worker:
        worker.subscribe([JOBS])
        for record in [each for _ in range(2) for each in await worker.poll(200)]:
            if record.offset in accepted:
                broken.append(f"offset {record.offset} of {JOBS} was accepted, and came again")
    return broken


async def _missing_values(bootstrap: str, promises: list[Promise]) -> list[str]:
    topics = {each.topic for each in promises if each.kind in ("record", "transaction")}
    seen = {topic: await _read_committed(bootstrap, topic) for topic in topics}
    return [
        f"{value[:20]!r} of {each.topic} was promised at step {each.since}, and is not visible"
        for each in promises
        if each.kind in ("record", "transaction")
        for value in each.values
        if value not in seen[each.topic]
    ]


async def _read_committed(bootstrap: str, topic: str) -> set[bytes]:
    seen: set[bytes] = set()
    async with Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek_to_beginning((topic, 0))
        [end] = (await consumer.end_offsets([(topic, 0)])).values()
        while await consumer.position((topic, 0)) < end:
            seen.update(bytes(record.value or b"") for record in await consumer.poll(1_000))
    return seen
