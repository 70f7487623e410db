"""Takes over the folders of a stopped Apache Kafka in place, step by step.

The records, indexes, producer snapshots and epoch histories of a partition are Kafka's own files, which Penstock reads
and writes as they are. What changes is the metadata: a catalog is made from Kafka's metadata log, which is set aside.

Every step can be repeated, and the catalog gets its name last: a command that is killed at any moment can be run
again, and until it has succeeded neither Penstock nor, from the second step on, Kafka starts on the folders. Nothing is
deleted: where a partition has to be copied from another file system, the original stays under another name.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from penstock.adoption.kafka_folder import CLEAN_SHUTDOWN, AdoptionError, locked
from penstock.adoption.metadata_log import METADATA_FOLDER
from penstock.adoption.plan import CATALOG_FILE, SET_ASIDE, Plan
from penstock.broker.cluster_folder import UNFINISHED_ADOPTION
from penstock.broker.features import SUPPORTED
from penstock.catalog.contract import CredentialRow, replaced_by
from penstock.catalog.sqlite import SqliteCatalog
from penstock.log.checkpoints import LOG_START_OFFSETS, RECOVERY_POINTS, read_checkpoint, write_checkpoint
from penstock.log.files import remove_if_there, sync_path, write_file
from penstock.storage.checkpoint import LEADER_EPOCH
from penstock.wire.config_resources import ResourceType

ADOPTED_FROM = "adopted-from"
"""A file beside the metadata log: the folder of the controller that it was copied from."""
_UNFINISHED = ".adopting"
_ORIGINAL = ".adopted"
Progress = Callable[[str], None]


def adopt(plan: Plan, progress: Progress = lambda _: None) -> None:
    """Carry the plan out. Raises AdoptionError if something is in the way, or a broker runs on one of the folders."""
    if plan.obstacles:
        raise AdoptionError(*plan.obstacles)
    paths = [folder.path for folder in plan.folders]
    if not plan.has_metadata_of_its_own:
        paths.append(plan.metadata.parent)
    with locked(paths):
        progress("Writing the catalog")
        catalog = plan.target / UNFINISHED_ADOPTION
        _write_catalog(plan, catalog)
        for folder in plan.folders:
            folder.keep_kafka_off()
        if len(plan.folders) > 1:
            progress("Moving partitions into one folder")
        _gather(plan, progress)
        _merge_checkpoints(plan)
        write_file(str(plan.target / LEADER_EPOCH), b"%d" % _next_epoch(plan), sync=True)
        if not plan.is_clean:
            remove_if_there(str(plan.target / CLEAN_SHUTDOWN))
        _set_metadata_aside(plan)
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
        catalog.change_features(
            replaced_by({name: level for name, level in image.features.items() if SUPPORTED[name].initial or not level})
        )
        for topic in image.topics_by_name():
            configs = _kept(plan, ResourceType.TOPIC, topic.name)
            catalog.create_topic(topic.name, topic.topic_id, len(topic.partitions), configs)
        for kind in (ResourceType.BROKER, ResourceType.CLIENT_METRICS, ResourceType.GROUP):
            for of, name in sorted(image.configs):
                if of == kind:
                    catalog.change_configs(kind, name, replaced_by(_kept(plan, kind, name)))
        catalog.change_acls(list(image.acls.values()), [])
        catalog.change_credentials(
            [
                CredentialRow(each.user, each.mechanism, each.iterations, each.salt, each.stored_key, each.server_key)
                for each in image.credentials.values()
            ],
            [],
        )
        catalog.change_quotas({entity: replaced_by(values) for entity, values in image.quotas.items()})
    finally:
        catalog.close()
    sync_path(str(path))


def _kept(plan: Plan, kind: ResourceType, name: str) -> dict[str, str]:
    configs = plan.image.configs.get((kind, name), {})
    return {config: value for config, value in configs.items() if (kind, name, config) not in plan.dropped_configs}


def _gather(plan: Plan, progress: Progress) -> None:
    """Bring all partitions into the first folder: by renaming, or by a copy where they are on another file system."""
    to_copy = set(plan.to_copy())
    for path in plan.partitions.values():
        if path.parent == plan.target or path in to_copy:
            continue
        path.rename(plan.target / path.name)
    for number, path in enumerate(sorted(to_copy), 1):
        progress(f"Copying {path} ({number} of {len(to_copy)})")
        _copy(path, plan.target / path.name)
    # All copies are on disk before the first original loses its name.
    sync_path(str(plan.target))
    for path in (*to_copy, *plan.originals):
        _rename_original(path, path.name)
    for folder in plan.folders[1:]:
        sync_path(str(folder.path))


def _copy(source: Path, target: Path) -> None:
    """A folder that is there under its name is whole, and on disk."""
    unfinished = target.with_name(target.name + _UNFINISHED)
    shutil.rmtree(unfinished, ignore_errors=True)
    shutil.copytree(source, unfinished)
    for file in unfinished.iterdir():
        sync_path(str(file))
    sync_path(str(unfinished))
    unfinished.rename(target)


def _set_metadata_aside(plan: Plan) -> None:
    aside = plan.target / SET_ASIDE
    if plan.metadata != aside:
        if plan.has_metadata_of_its_own and plan.metadata.stat().st_dev == plan.target.stat().st_dev:
            plan.metadata.rename(aside)
        else:
            shutil.rmtree(aside, ignore_errors=True)
            _copy(plan.metadata, aside)
    if not plan.has_metadata_of_its_own:
        write_file(str(aside / ADOPTED_FROM), str(plan.metadata.parent.resolve()).encode(), sync=True)
    for folder in plan.folders:
        if (folder.path / METADATA_FOLDER).is_dir():
            _rename_original(folder.path / METADATA_FOLDER, SET_ASIDE)
            sync_path(str(folder.path))


def _rename_original(path: Path, name: str) -> None:
    """Out of the way of Kafka and of a later adoption."""
    aside = path.with_name(name + _ORIGINAL)
    attempt = 1
    while aside.exists():
        attempt += 1
        aside = path.with_name(f"{name}{_ORIGINAL}.{attempt}")
    path.rename(aside)


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
