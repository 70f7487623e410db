"""Everything that clients and the files of a data folder can tell, to be compared before and after a move."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from penstock.catalog.sqlite import SqliteCatalog
from penstock.log.producer_state import ProducerEntry, ProducerState
from penstock.log.recovery import snapshot_path
from penstock.operation.folder import StoppedFolder
from penstock.wire.config_resources import ResourceType


def of_folder(data: Path) -> dict[str, Any]:
    """The catalog, and of each partition its bytes, offsets, epochs, aborted transactions and producers."""
    catalog = SqliteCatalog.open(data / "catalog.sqlite")
    try:
        found: dict[str, Any] = {
            "cluster": (catalog.cluster_id, catalog.secret(), catalog.next_producer_id()),
            "features": (catalog.features(), catalog.features_epoch()),
            "topics": catalog.topics(),
            "configs": [catalog.config_resources(kind) for kind in ResourceType if kind is not ResourceType.TOPIC],
            "acls": catalog.acls(),
            "credentials": catalog.credentials(),
            "quotas": catalog.quotas(),
        }
        partitions = [(topic.name, index) for topic in catalog.topics() for index in range(topic.partitions)]
    finally:
        catalog.close()
    for topic, index in partitions:
        folder = _folder_of(data, f"{topic}-{index}")
        files = StoppedFolder(folder).partition(topic, index)
        path = str(folder / f"{topic}-{index}")
        aborted = [_read(each.stem + ".txnindex") for each in files.segments]
        state = ProducerState()
        if os.path.exists(snapshot_path(path, files.end_offset)):
            state.load_snapshot(snapshot_path(path, files.end_offset), 0)
        found[f"{topic}-{index}"] = (
            files.log_start_offset,
            files.end_offset,
            files.epochs,
            b"".join(_read(each.stem + ".log") for each in files.segments),
            b"".join(aborted),
            sorted(map(_producer, state.entries.values())),
            state.first_unstable_offset,
        )
    return found


def _folder_of(data: Path, partition: str) -> Path:
    """The data folder itself, or in one of several brokers the folder of the broker that has the partition."""
    (found,) = [each for each in (data, *data.glob("brokers/*")) if (each / partition).is_dir()]
    return found


def _producer(entry: ProducerEntry) -> tuple[object, ...]:
    batches = [str(each) for each in entry.batches]
    return (entry.producer_id, entry.producer_epoch, entry.coordinator_epoch, entry.current_txn_first_offset, batches)


def _read(path: str) -> bytes:
    return Path(path).read_bytes() if os.path.exists(path) else b""
