"""One of the folders (`log.dirs`) of an Apache Kafka broker: who it belongs to, and which partitions it holds."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.properties import read_properties

META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"
_PARTITION = re.compile(r"(.+)-(\d+)")
_MAGIC_AT = 16
_OLDEST_MAGIC = 2


class AdoptionError(Exception):
    """The folder is not taken over, and nothing in it has changed; the message says what to do."""


@dataclass(frozen=True, slots=True)
class KafkaFolder:
    path: Path
    cluster_id: str
    node_id: int
    directory_id: str

    @classmethod
    def open(cls, path: Path) -> KafkaFolder:
        """Read whose folder it is. Raises AdoptionError if it is not a KRaft broker's."""
        try:
            properties = read_properties((path / META_PROPERTIES).read_text())
        except FileNotFoundError:
            raise AdoptionError(
                f"{path} has no {META_PROPERTIES}, so it is not a folder of Apache Kafka: name what log.dirs names"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise AdoptionError(f"{path / META_PROPERTIES} cannot be read: {error}") from error
        if properties.get("version") != "1":
            raise AdoptionError(
                f"{path} belongs to a broker that keeps its metadata in ZooKeeper: migrate it to KRaft with Apache "
                "Kafka 3.9 first"
            )
        try:
            node_id = int(properties["node.id"])
            return cls(path, properties["cluster.id"], node_id, properties.get("directory.id", ""))
        except (KeyError, ValueError) as error:
            raise AdoptionError(f"{path / META_PROPERTIES} makes no sense: {error}") from error

    @property
    def was_stopped_cleanly(self) -> bool:
        return (self.path / CLEAN_SHUTDOWN).exists()

    def partitions(self) -> dict[tuple[str, int], Path]:
        """The folders of partitions, by topic and index. Those being deleted or set aside do not count."""
        found = {}
        for entry in os.scandir(self.path):
            match = _PARTITION.fullmatch(entry.name)
            if match is not None and entry.is_dir():
                found[match[1], int(match[2])] = Path(entry.path)
        return found


@contextmanager
def locked(folders: list[KafkaFolder]) -> Iterator[None]:
    """Keep Kafka and Penstock off the folders; raises AdoptionError if one of them is there already.

    Kafka locks the file as Java does (`fcntl`), Penstock as a whole (`flock`): both are taken.
    """
    with ExitStack() as release:
        for folder in folders:
            descriptor = os.open(folder.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            release.callback(os.close, descriptor)
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise AdoptionError(f"{folder.path} is in use: stop the broker that runs on it first") from None
        yield


def has_old_records(partition: Path) -> bool:
    """Whether a segment begins with a batch older than format 2, which Kafka wrote before 0.11 and 4.0 gave up."""
    for segment in partition.glob("*.log"):
        with segment.open("rb") as file:
            head = file.read(_MAGIC_AT + 1)
        if len(head) > _MAGIC_AT and head[_MAGIC_AT] < _OLDEST_MAGIC:
            return True
    return False
