"""What taking over a Kafka's folders would do, found out without changing anything.

Everything that stands in the way is collected, so that all of it can be settled at once.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from penstock.adoption.image import MetadataImage, TopicImage, UnknownMetadata, decode_registration
from penstock.adoption.kafka_folder import (
    CLEAN_SHUTDOWN,
    AdoptionError,
    KafkaFolder,
    bytes_in,
    encoded_id,
    has_old_records,
    in_use,
    is_in_use,
    topic_id_of,
)
from penstock.adoption.metadata_log import METADATA_FOLDER, MetadataLog, UnreadableMetadata, read_metadata
from penstock.broker.config import BrokerConfig, ConfigError, TopicConfigs
from penstock.broker.features import SUPPORTED
from penstock.log.leader_epochs import LeaderEpochs
from penstock.log.partition import LEADER_EPOCHS_FILE
from penstock.portable import disk_space
from penstock.records.batch import CorruptBatch
from penstock.wire.codec import MalformedMessage
from penstock.wire.config_resources import ResourceType

SET_ASIDE = "kafka-metadata"
"""What Penstock's data folder calls the metadata log of the Kafka before it."""
CATALOG_FILE = "catalog.sqlite"
_STREAMS = "streams.version"
_KNOWN_RESOURCES = {ResourceType.TOPIC, ResourceType.BROKER, ResourceType.CLIENT_METRICS, ResourceType.GROUP}
_ONCE_MORE = "start Kafka on the folders once more, and stop it"


@dataclass(slots=True)
class Plan:
    folders: list[KafkaFolder]
    """The first becomes Penstock's data folder."""
    metadata: Path
    image: MetadataImage
    partitions: dict[tuple[str, int], Path] = field(default_factory=dict)
    """The folder of each partition that is taken over."""
    originals: list[Path] = field(default_factory=list)
    """Partitions on another disk whose copy was finished by an earlier run."""
    dropped_configs: set[tuple[int, str, str]] = field(default_factory=set)
    obstacles: list[str] = field(default_factory=list)
    """What has to be done first; with any of them nothing is taken over."""
    notes: list[str] = field(default_factory=list)

    @property
    def target(self) -> Path:
        return self.folders[0].path

    @property
    def is_clean(self) -> bool:
        return all(folder.was_stopped_cleanly for folder in self.folders)

    @property
    def has_metadata_of_its_own(self) -> bool:
        """Whether the metadata log is in one of the folders, not in that of a controller apart from them."""
        return self.metadata.parent in [folder.path for folder in self.folders]

    @property
    def bytes(self) -> int:
        return sum(bytes_in(path) for path in self.partitions.values())

    def to_copy(self) -> list[Path]:
        """The partitions on another file system than the target."""
        device = os.stat(self.target).st_dev
        return [path for path in self.partitions.values() if os.stat(path).st_dev != device]


def make_plan(paths: list[Path], metadata: Path | None = None) -> Plan:
    """Look at everything. Raises AdoptionError where so little can be read that there is no plan."""
    folders, obstacles = _open_folders(paths)
    named = [metadata] if metadata is not None else []
    obstacles += [in_use(path) for path in [*paths, *named] if is_in_use(path)]
    if not folders:
        raise AdoptionError(*obstacles)
    if (folders[0].path / CATALOG_FILE).exists():
        raise AdoptionError(f"{folders[0].path} is Penstock's already: penstock serve --data {folders[0].path}")
    try:
        found, log = _read_metadata(folders, metadata)
    except AdoptionError as error:
        raise AdoptionError(*obstacles, *error.obstacles) from error
    plan = Plan(folders, found, log.image, obstacles=obstacles)
    if log.torn_bytes:
        plan.notes.append(f"an unfinished record at the end of the metadata log is left out ({log.torn_bytes} bytes)")
    _check_features(plan)
    _check_all_folders_named(plan)
    _check_partitions(plan)
    _check_space(plan)
    _check_configs(plan)
    if not plan.is_clean:
        plan.notes.append("Kafka was not stopped cleanly: the logs are checked when Penstock starts")
    return plan


def _open_folders(paths: list[Path]) -> tuple[list[KafkaFolder], list[str]]:
    folders: list[KafkaFolder] = []
    obstacles: list[str] = []
    for path in paths:
        try:
            folders.append(KafkaFolder.open(path))
        except AdoptionError as error:
            obstacles += error.obstacles
    for other in folders[1:]:
        first = folders[0]
        if (other.cluster_id, other.node_id) != (first.cluster_id, first.node_id):
            obstacles.append(
                f"{first.path} is of broker {first.node_id} of the cluster {first.cluster_id}, and {other.path} of "
                f"broker {other.node_id} of {other.cluster_id}: name the folders of one broker"
            )
    return folders, obstacles


def _read_metadata(folders: list[KafkaFolder], named: Path | None) -> tuple[Path, MetadataLog]:
    found = _find_metadata(folders, named)
    try:
        return found, read_metadata(found, was_stopped_cleanly=(found.parent / CLEAN_SHUTDOWN).exists())
    except UnreadableMetadata as error:
        raise AdoptionError(f"the cluster's metadata cannot be trusted: {error}. Restore it from a backup") from error
    except (UnknownMetadata, MalformedMessage, CorruptBatch, KeyError) as error:
        raise AdoptionError(
            f"the cluster's metadata in {found} holds what this version of Penstock does not know ({error}): it takes "
            "over clusters of Apache Kafka 3.9 to 4.3"
        ) from error


def _find_metadata(folders: list[KafkaFolder], named: Path | None) -> Path:
    candidates = [named] if named is not None else []
    candidates += [folder.path for folder in folders]
    for folder in candidates:
        for name in (METADATA_FOLDER, SET_ASIDE):
            if (folder / name).is_dir():
                return folder / name
    raise AdoptionError(
        f"none of the folders has {METADATA_FOLDER}: name the metadata.log.dir of a controller with --metadata"
    )


def _check_features(plan: Plan) -> None:
    for name, level in sorted(plan.image.features.items()):
        known = SUPPORTED.get(name)
        if name == _STREAMS and level:
            plan.notes.append("groups of the Streams protocol (KIP-1071) are not served; their offsets are kept")
        elif known is None or level > known.highest:
            plan.obstacles.append(
                f"the cluster has the feature {name} at level {level}, which this Penstock does not know: take a newer "
                "Penstock"
            )


def _check_all_folders_named(plan: Plan) -> None:
    """A folder that is forgotten would be partitions that are lost, and the registration says how many there were."""
    first = plan.folders[0]
    value = plan.image.brokers.get(first.node_id)
    if value is None or plan.image.features.get("metadata.version", 0) == 0:
        return
    registered = {encoded_id(each) for each in decode_registration(value).log_dirs}
    named = {folder.directory_id for folder in plan.folders}
    missing = registered - named
    if missing:
        plan.obstacles.append(
            f"broker {first.node_id} has {len(registered)} folders in its log.dirs, and {len(missing)} of them "
            f"{'is' if len(missing) == 1 else 'are'} not named ({', '.join(sorted(missing))}): name all of them"
        )


def _check_partitions(plan: Plan) -> None:
    there = _partition_folders(plan)
    known: set[tuple[str, int]] = set()
    copies = 0
    for topic in plan.image.topics_by_name():
        copies += sum(len(partition.replicas) > 1 for partition in topic.partitions.values())
        known |= {(topic.name, index) for index in topic.partitions}
        _check_topic(plan, topic, there)
    for key in sorted(there.keys() - known):
        _check_unknown(plan, there[key])
    if copies:
        plan.notes.append(f"{copies} partitions have replicas on other brokers: this broker's copies are taken over")


def _partition_folders(plan: Plan) -> dict[tuple[str, int], Path]:
    there: dict[tuple[str, int], Path] = {}
    for folder in plan.folders:
        for key, path in folder.partitions().items():
            if path.name == METADATA_FOLDER:
                continue
            if key not in there:
                there[key] = path
            elif there[key].parent == plan.target and _is_copy(there[key], path):
                plan.originals.append(path)
            else:
                plan.obstacles.append(
                    f"{path.name} is in two folders with different files, {there[key].parent} and {path.parent}: move "
                    "the one that does not count away"
                )
    return there


def _is_copy(one: Path, other: Path) -> bool:
    return _files(one) == _files(other)


def _files(folder: Path) -> set[tuple[str, int]]:
    return {(entry.name, entry.stat().st_size) for entry in os.scandir(folder)}


def _check_topic(plan: Plan, topic: TopicImage, there: dict[tuple[str, int], Path]) -> None:
    node_id = plan.folders[0].node_id
    if sorted(topic.partitions) != list(range(len(topic.partitions))):
        plan.obstacles.append(
            f"the metadata has only some partitions of the topic {topic.name}, so it is incomplete: restore it from a "
            "backup"
        )
        return
    for index, partition in sorted(topic.partitions.items()):
        name = f"{topic.name}-{index}"
        if node_id not in partition.replicas:
            plan.obstacles.append(
                f"broker {node_id} has no replica of {name}: move all partitions to it first "
                "(kafka-reassign-partitions), because one broker is taken over, not a cluster"
            )
        elif partition.replicas != [node_id] and node_id not in (*partition.isr, *partition.eligible):
            plan.obstacles.append(
                f"the replica of {name} on broker {node_id} is behind: let it catch up before stopping the cluster"
            )
        path = there.get((topic.name, index))
        if path is None:
            plan.notes.append(f"{name} has no folder yet and begins empty")
            continue
        _check_folder(plan, topic, path, partition.leader_epoch)
        plan.partitions[topic.name, index] = path


def _check_folder(plan: Plan, topic: TopicImage, path: Path, leader_epoch: int) -> None:
    owner = topic_id_of(path)
    if owner is not None and owner != topic.topic_id:
        plan.obstacles.append(
            f"{path} belongs to another topic of that name ({encoded_id(owner)}): {_ONCE_MORE}. If that does not "
            "help, the metadata is not that of these folders"
        )
    if LeaderEpochs(str(path / LEADER_EPOCHS_FILE)).latest > leader_epoch:
        plan.obstacles.append(
            f"{path} was written under a later leader epoch than the metadata has, so the metadata is older than the "
            "folder: restore both from the same backup"
        )
    if has_old_records(path):
        plan.obstacles.append(
            f"{path.name} holds records in the format of Kafka before 0.11, which current versions cannot read: "
            "rewrite the topic with Apache Kafka 3.9"
        )


def _check_unknown(plan: Plan, path: Path) -> None:
    if topic_id_of(path) is None:
        plan.notes.append(f"{path} is not the folder of a topic, and is left out")
        return
    plan.obstacles.append(
        f"{path} holds a partition of a topic that is not in the metadata: {_ONCE_MORE}, and move the folder away "
        "if it is still there. If there are many of them, the metadata is incomplete: restore it from a backup"
    )


def _check_space(plan: Plan) -> None:
    needed = sum(bytes_in(path) for path in plan.to_copy())
    free = disk_space(plan.target).usable_bytes
    if needed > free:
        plan.obstacles.append(
            f"{plan.target} has {free:,} bytes free, and {needed:,} bytes of partitions are on other file systems: "
            "make room, or name the folder on the largest file system first"
        )


def _check_configs(plan: Plan) -> None:
    topic_configs = TopicConfigs(BrokerConfig({}))
    for (kind, name), configs in sorted(plan.image.configs.items()):
        if kind not in _KNOWN_RESOURCES:
            plan.notes.append(f"configs of {name!r} of the unknown type {kind} are left out")
            plan.dropped_configs |= {(kind, name, config) for config in configs}
        for config, value in sorted(configs.items()):
            if kind != ResourceType.TOPIC:
                continue
            try:
                topic_configs.check({config: value})
            except ConfigError as error:
                plan.notes.append(f"the config {config}={value} of the topic {name} is left out: {error}")
                plan.dropped_configs.add((kind, name, config))
