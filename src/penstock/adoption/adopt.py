"""Takes over the folders of a stopped Apache Kafka in place, step by step.

The records, indexes, producer snapshots and epoch histories of a partition are Kafka's own files, which Penstock reads
and writes as they are. What changes is the metadata: a catalog is made from Kafka's metadata log, which is set aside.

Every step can be repeated, and the catalog gets its name last: killed at any moment, the command is given again, and
until it has succeeded no Penstock starts on the folder. Nothing is deleted.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from penstock.adoption.kafka_folder import CLEAN_SHUTDOWN, locked
from penstock.adoption.plan import CATALOG_FILE, SET_ASIDE, Plan
from penstock.broker.features import SUPPORTED
from penstock.catalog.contract import CredentialRow
from penstock.catalog.sqlite import SqliteCatalog
from penstock.log.checkpoints import LOG_START_OFFSETS, RECOVERY_POINTS, read_checkpoint, write_checkpoint
from penstock.log.files import remove_if_there, sync_path, write_file
from penstock.storage.checkpoint import LEADER_EPOCH
from penstock.wire.config_resources import ResourceType

_UNFINISHED = ".adopting"
Progress = Callable[[str], None]


def adopt(plan: Plan, progress: Progress = lambda _: None) -> None:
    """Carry the plan out. Raises AdoptionError if a broker runs on one of the folders."""
    with locked(plan.folders):
        progress("Writing the catalog")
        catalog = plan.target / (CATALOG_FILE + _UNFINISHED)
        _write_catalog(plan, catalog)
        if len(plan.folders) > 1:
            progress("Moving partitions into one folder")
        _gather(plan)
        _merge_checkpoints(plan)
        write_file(str(plan.target / LEADER_EPOCH), b"%d" % _next_epoch(plan), sync=True)
        if not plan.is_clean:
            remove_if_there(str(plan.target / CLEAN_SHUTDOWN))
        if plan.metadata.name != SET_ASIDE and plan.metadata.parent == plan.target:
            plan.metadata.rename(plan.target / SET_ASIDE)
        sync_path(str(plan.target))
        catalog.rename(plan.target / CATALOG_FILE)
        sync_path(str(plan.target))


def _write_catalog(plan: Plan, path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        remove_if_there(f"{path}{suffix}")
    image = plan.image
    catalog = SqliteCatalog.open(path)
    try:
        catalog.become(plan.folders[0].cluster_id, image.next_producer_id)
        catalog.set_features(
            {name: level for name, level in image.features.items() if SUPPORTED[name].initial or not level}
        )
        for topic in image.topics_by_name():
            configs = _kept(plan, ResourceType.TOPIC, topic.name)
            catalog.create_topic(topic.name, topic.topic_id, len(topic.partitions), configs)
        for kind in (ResourceType.BROKER, ResourceType.CLIENT_METRICS, ResourceType.GROUP):
            for of, name in sorted(image.configs):
                if of == kind:
                    catalog.set_configs(kind, name, _kept(plan, kind, name))
        catalog.change_acls(list(image.acls.values()), [])
        catalog.change_credentials(
            [
                CredentialRow(each.user, each.mechanism, each.iterations, each.salt, each.stored_key, each.server_key)
                for each in image.credentials.values()
            ],
            [],
        )
        catalog.set_quotas(image.quotas)
    finally:
        catalog.close()
    sync_path(str(path))


def _kept(plan: Plan, kind: ResourceType, name: str) -> dict[str, str]:
    configs = plan.image.configs.get((kind, name), {})
    return {config: value for config, value in configs.items() if (kind, name, config) not in plan.dropped_configs}


def _gather(plan: Plan) -> None:
    """Bring all partitions into the first folder: by renaming, or by a copy where they are on another disk."""
    for path in plan.partitions.values():
        target = plan.target / path.name
        if path.parent == plan.target or target.exists():
            continue
        try:
            path.rename(target)
        except OSError:
            unfinished = plan.target / (path.name + _UNFINISHED)
            shutil.rmtree(unfinished, ignore_errors=True)
            shutil.copytree(path, unfinished)
            for file in unfinished.iterdir():
                sync_path(str(file))
            sync_path(str(unfinished))
            unfinished.rename(target)
        sync_path(str(plan.target))


def _merge_checkpoints(plan: Plan) -> None:
    for name in (RECOVERY_POINTS, LOG_START_OFFSETS):
        offsets: dict[tuple[str, int], int] = {}
        for folder in reversed(plan.folders):
            offsets |= read_checkpoint(folder.path / name)
        write_checkpoint(plan.target / name, {key: at for key, at in offsets.items() if key in plan.partitions})


def _next_epoch(plan: Plan) -> int:
    """Above every epoch that clients may have heard of."""
    epochs = (partition.leader_epoch for topic in plan.image.topics.values() for partition in topic.partitions.values())
    return 1 + max(epochs, default=0)


def partition_bytes(plan: Plan) -> int:
    """How much the partitions hold, for people."""
    return sum(entry.stat().st_size for path in plan.partitions.values() for entry in os.scandir(path))
