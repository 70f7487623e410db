"""What taking over a Kafka's folders would do, found out without changing anything."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from pathlib import Path

from penstock.adoption.image import MetadataImage, TopicImage, UnknownMetadata, decode_registration
from penstock.adoption.kafka_folder import AdoptionError, KafkaFolder, has_old_records
from penstock.adoption.metadata_log import METADATA_FOLDER, UnreadableMetadata, read_image
from penstock.broker.config import BrokerConfig, ConfigError, TopicConfigs
from penstock.broker.features import SUPPORTED
from penstock.wire.codec import MalformedMessage
from penstock.wire.config_resources import ResourceType

SET_ASIDE = "kafka-metadata"
"""What Penstock's data folder calls the metadata log of the Kafka before it."""
CATALOG_FILE = "catalog.sqlite"
_STREAMS = "streams.version"
_KNOWN_RESOURCES = {ResourceType.TOPIC, ResourceType.BROKER, ResourceType.CLIENT_METRICS, ResourceType.GROUP}


@dataclass(slots=True)
class Plan:
    folders: list[KafkaFolder]
    """The first becomes Penstock's data folder."""
    metadata: Path
    image: MetadataImage
    partitions: dict[tuple[str, int], Path]
    """The folder of each partition that is taken over."""
    dropped_configs: set[tuple[int, str, str]] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)

    @property
    def target(self) -> Path:
        return self.folders[0].path

    @property
    def is_clean(self) -> bool:
        return all(folder.was_stopped_cleanly for folder in self.folders)


def make_plan(paths: list[Path], metadata: Path | None = None) -> Plan:
    """Look at everything. Raises AdoptionError with what to do if the folders cannot be taken over as they are."""
    folders = [KafkaFolder.open(path) for path in paths]
    _check_same_broker(folders)
    if (folders[0].path / CATALOG_FILE).exists():
        raise AdoptionError(f"{folders[0].path} is Penstock's already: penstock serve --data {folders[0].path}")
    found = _find_metadata(folders, metadata)
    try:
        image = read_image(found)
    except UnreadableMetadata as error:
        raise AdoptionError(f"the cluster's metadata cannot be read: {error}") from error
    except (UnknownMetadata, MalformedMessage, KeyError) as error:
        raise AdoptionError(
            f"the cluster's metadata in {found} holds what this Penstock does not know ({error}): it takes over "
            "clusters of Apache Kafka 3.9 to 4.3"
        ) from error
    plan = Plan(folders, found, image, {})
    _check_features(plan)
    _check_all_folders_named(plan)
    _check_partitions(plan)
    _check_configs(plan)
    if not plan.is_clean:
        plan.notes.append("Kafka was not stopped cleanly: the logs are checked when Penstock starts")
    return plan


def _check_same_broker(folders: list[KafkaFolder]) -> None:
    first = folders[0]
    for other in folders[1:]:
        if (other.cluster_id, other.node_id) != (first.cluster_id, first.node_id):
            raise AdoptionError(
                f"{first.path} is of broker {first.node_id} of the cluster {first.cluster_id}, and {other.path} of "
                f"broker {other.node_id} of {other.cluster_id}: name the folders of one broker"
            )


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
            raise AdoptionError(
                f"the cluster has the feature {name} at level {level}, which this Penstock does not know: take a newer "
                "Penstock"
            )


def _check_all_folders_named(plan: Plan) -> None:
    """A folder that is forgotten would be partitions that are lost, and the registration says how many there were."""
    first = plan.folders[0]
    value = plan.image.brokers.get(first.node_id)
    if value is None or plan.image.features.get("metadata.version", 0) == 0:
        return
    registered = _log_dirs(value)
    named = {folder.directory_id for folder in plan.folders}
    missing = registered - named
    if missing:
        raise AdoptionError(
            f"broker {first.node_id} has {len(registered)} folders in its log.dirs, and {len(missing)} of them "
            f"{'is' if len(missing) == 1 else 'are'} not named ({', '.join(sorted(missing))}): name all of them"
        )


def _log_dirs(registration: bytes) -> set[str]:
    record = decode_registration(registration)
    return {urlsafe_b64encode(each).rstrip(b"=").decode() for each in record.log_dirs}


def _check_partitions(plan: Plan) -> None:
    node_id = plan.folders[0].node_id
    there: dict[tuple[str, int], Path] = {}
    for folder in plan.folders:
        for key, path in folder.partitions().items():
            if key in there:
                raise AdoptionError(f"{key[0]}-{key[1]} is in two folders, {there[key]} and {path}: remove one of them")
            there[key] = path
    copies = 0
    for topic in plan.image.topics_by_name():
        copies += sum(len(partition.replicas) > 1 for partition in topic.partitions.values())
        _check_topic(plan, topic, node_id, there)
    if copies:
        plan.notes.append(f"{copies} partitions have replicas on other brokers: this broker's copies are taken over")


def _check_topic(plan: Plan, topic: TopicImage, node_id: int, there: dict[tuple[str, int], Path]) -> None:
    if sorted(topic.partitions) != list(range(len(topic.partitions))):
        raise AdoptionError(f"the metadata knows only some partitions of the topic {topic.name}")
    for index, partition in sorted(topic.partitions.items()):
        name = f"{topic.name}-{index}"
        if node_id not in partition.replicas:
            raise AdoptionError(
                f"broker {node_id} has no replica of {name}: move all partitions to it first "
                "(kafka-reassign-partitions), because one broker is taken over, not a cluster"
            )
        if partition.replicas != [node_id] and node_id not in (*partition.isr, *partition.eligible):
            raise AdoptionError(
                f"the replica of {name} on broker {node_id} is behind: let it catch up before stopping the cluster"
            )
        path = there.get((topic.name, index))
        if path is None:
            plan.notes.append(f"{name} has no folder yet and begins empty")
            continue
        if has_old_records(path):
            raise AdoptionError(
                f"{name} holds records in the format of Kafka before 0.11, which nobody serves any more: rewrite the "
                "topic with Apache Kafka 3.9"
            )
        plan.partitions[topic.name, index] = path


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
