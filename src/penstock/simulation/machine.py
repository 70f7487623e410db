"""One broker with the embedded engine on the files of its machine; its catalog is in memory, or in SQLite.

The engine, its flusher, its cleaner and its recovery are those of production. See `files` for the disk.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from penstock import portable
from penstock.broker.foundation import CATALOG_FILE, Foundation
from penstock.catalog.memory import MemoryCatalog
from penstock.log.segment import LOG_SUFFIX, TXN_INDEX_SUFFIX, file_stem
from penstock.records.batch import CorruptBatch, crc_is_valid, iter_headers
from penstock.simulation.files import FileDisk
from penstock.simulation.node import Loss, Node
from penstock.simulation.sqlite_file import CatalogFile, NamelessCatalog
from penstock.simulation.tls import listener_of
from penstock.simulation.world import OneBroker
from penstock.storage.local import LocalStorage

if TYPE_CHECKING:
    from penstock.broker.config import BrokerConfig
    from penstock.broker.foundation import OnFailure
    from penstock.broker.world import World
    from penstock.catalog.contract import Catalog
    from penstock.simulation.loop import Process

_MEMORY_FOLDER = Path("/dev/shm")


class FileGround:
    """See `node.Ground`."""

    has_threads = True

    def __init__(self, world: MachineSimulation) -> None:
        self._world = world
        self._storage: LocalStorage | None = None

    def lay(
        self, node: Node, process: Process, config: BrokerConfig, world: World, on_failure: OnFailure
    ) -> Foundation:
        catalog = self._world.open_catalog()
        storage = self._storage = LocalStorage(
            self._world.disk.folder,
            world.now_ms,
            world.call_soon_threadsafe,
            on_failure,
            world.precise,
            threads=world.threads,
            new_id=world.new_id,
        )
        network = self._world.network
        return Foundation(catalog, storage, lambda: [listener_of(network, process, node.address, config)])

    def process_died(self, node: Node, now_ms: int) -> None:
        """The operating system keeps what was written."""
        self._world.process_died()

    def power_cut(self, node: Node, now_ms: int) -> list[Loss]:
        before = (
            {(log.topic, log.partition): log.log_end_offset for log in self._storage.logs()} if self._storage else {}
        )
        self._world.power_cut()
        losses = []
        for (topic, partition), end_before in sorted(before.items()):
            end = _end_offset(self._world.disk.folder / f"{topic}-{partition}")
            if end < end_before:
                losses.append(Loss(topic, partition, end, end_before))
        return losses


class MachineSimulation(OneBroker):
    """Needs greenlet: the engine waits for its disk in threads."""

    def _build(self, configs: Mapping[str, str]) -> list[Node]:
        self.folder = Path(tempfile.mkdtemp(dir=_MEMORY_FOLDER if _MEMORY_FOLDER.is_dir() else None))
        self.over.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.disk: FileDisk = FileDisk(self.loop, self.chance, self.folder)
        self.catalog = MemoryCatalog()
        return [Node(self, self._address("broker"), FileGround(self), configs)]

    def open_catalog(self) -> Catalog:
        """What a broker keeps its metadata in."""
        return self.catalog

    def process_died(self) -> None:
        """The broker was killed."""

    def power_cut(self) -> None:
        """The disk has what it has."""
        self.disk.power_cut()

    @property
    def figures(self) -> dict[str, int]:
        return {"syncs": self.disk.syncs, **self.disk.counts}

    @contextmanager
    def _standard_library(self) -> Iterator[None]:
        boot_session = portable.boot_session
        portable.boot_session = lambda: b"boot %d" % self.disk.boots
        try:
            with super()._standard_library(), self.disk.installed():
                yield
        finally:
            portable.boot_session = boot_session


class WholeMachine(MachineSimulation):
    """With the catalog of production too, in a folder beside that of the records. See `sqlite_file`."""

    def _build(self, configs: Mapping[str, str]) -> list[Node]:
        nodes = super()._build(configs)
        self.catalog_folder = Path(tempfile.mkdtemp(dir=_MEMORY_FOLDER if _MEMORY_FOLDER.is_dir() else None))
        self.over.callback(shutil.rmtree, self.catalog_folder, ignore_errors=True)
        path = self.catalog_folder / CATALOG_FILE
        self.catalog_file = CatalogFile(self.loop, self.chance, path, lambda: self.disk.is_full)
        self.over.callback(self.catalog_file.process_died)
        return nodes

    @property
    def catalog(self) -> Catalog:
        """For whoever changes something while no broker runs."""
        return self.catalog_file.outside

    @catalog.setter
    def catalog(self, catalog: Catalog) -> None:
        """It is in a file."""

    def open_catalog(self) -> Catalog:
        self.catalog_file.leave()
        return NamelessCatalog.open(self.catalog_file.path)

    def process_died(self) -> None:
        self.catalog_file.process_died()

    def power_cut(self) -> None:
        super().power_cut()
        self.catalog_file.power_cut()

    def adopt(self, data: Path) -> None:
        """Begin with a data folder that is on the disk."""
        for path in data.glob(f"{CATALOG_FILE}*"):
            shutil.copy(path, self.catalog_folder)
        self.disk.adopt(data, lambda name: name.startswith(CATALOG_FILE))

    @property
    def figures(self) -> dict[str, int]:
        return {**super().figures, **self.catalog_file.counts}

    @contextmanager
    def _standard_library(self) -> Iterator[None]:
        with super()._standard_library(), self.catalog_file.installed():
            yield


def _end_offset(folder: Path) -> int:
    """Where a log ends, as recovery will find it: behind the last batch that is whole, and before the first hole.

    Only compaction leaves holes. It leaves others in the same segment, or the index of transactions that every segment
    has which it has cleaned.
    """
    end: int | None = None
    may_have_holes = True
    for base_offset in sorted(int(path.stem) for path in folder.glob(f"*{LOG_SUFFIX}")):
        if end is not None and end < base_offset and not may_have_holes:
            return end
        stem = file_stem(str(folder), base_offset)
        data = Path(stem + LOG_SUFFIX).read_bytes()
        end = max(end or 0, base_offset)
        may_have_holes = Path(stem + TXN_INDEX_SUFFIX).exists()
        try:
            for position, header in iter_headers(data):
                if not crc_is_valid(data, position, header.size):
                    return end
                may_have_holes = may_have_holes or header.base_offset != end
                end = header.next_offset
        except CorruptBatch:
            return end
    return end or 0
