"""One of the folders (`log.dirs`) of an Apache Kafka broker: whose it is, and which partitions it holds."""

from __future__ import annotations

import os
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.log.files import sync_path, write_file
from penstock.log.folder import PARTITION_METADATA_FILE
from penstock.portable import OPEN_FLAGS, lock_file
from penstock.properties import read_properties

META_PROPERTIES = "meta.properties"
META_PROPERTIES_SET_ASIDE = "meta.properties.adopted"
"""What `meta.properties` is called while the folder is Penstock's: without that file Kafka does not start on it."""
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"
_PARTITION = re.compile(r"(.+)-(\d+)")
_TOPIC_ID = re.compile(r"^topic_id: (\S+)$", re.MULTILINE)
_MAGIC_AT = 16
_OLDEST_MAGIC = 2


class AdoptionError(Exception):
    """The folder is not taken over, or not given back, and is as it was; the message says what to do."""

    def __init__(self, *obstacles: str) -> None:
        super().__init__("\n".join(obstacles))
        self.obstacles = obstacles


@dataclass(frozen=True, slots=True)
class KafkaFolder:
    path: Path
    cluster_id: str
    node_id: int
    directory_id: str

    @classmethod
    def open(cls, path: Path) -> KafkaFolder:
        """Read whose folder it is. Raises AdoptionError if it is not a KRaft broker's."""
        file = path / META_PROPERTIES
        if not file.exists():
            file = path / META_PROPERTIES_SET_ASIDE
        try:
            properties = read_properties(file.read_text())
        except FileNotFoundError:
            raise AdoptionError(
                f"{path} has no {META_PROPERTIES}, so it is not a folder of Apache Kafka: name what log.dirs names"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise AdoptionError(f"{file} cannot be read: {error}") from error
        if properties.get("version") != "1":
            raise AdoptionError(
                f"{path} belongs to a broker that keeps its metadata in ZooKeeper: migrate it to KRaft with Apache "
                "Kafka 3.9 first"
            )
        try:
            node_id = int(properties["node.id"])
            return cls(path, properties["cluster.id"], node_id, properties.get("directory.id", ""))
        except (KeyError, ValueError) as error:
            raise AdoptionError(f"{file} is not valid ({error}): restore it from a backup") from error

    @property
    def was_stopped_cleanly(self) -> bool:
        return (self.path / CLEAN_SHUTDOWN).exists()

    @property
    def directory_bytes(self) -> bytes:
        return decoded_id(self.directory_id) if self.directory_id else bytes(16)

    def partitions(self) -> dict[tuple[str, int], Path]:
        """The folders of partitions, by topic and index. Those being deleted or set aside do not count."""
        found = {}
        for entry in os.scandir(self.path):
            match = _PARTITION.fullmatch(entry.name)
            if match is not None and entry.is_dir():
                found[match[1], int(match[2])] = Path(entry.path)
        return found

    def write_meta_properties(self) -> None:
        """Of a folder that Kafka never had; `let_kafka_in` gives the file its name."""
        text = f"version=1\ncluster.id={self.cluster_id}\nnode.id={self.node_id}\ndirectory.id={self.directory_id}\n"
        write_file(str(self.path / META_PROPERTIES_SET_ASIDE), text.encode(), sync=True)

    def keep_kafka_off(self) -> None:
        """Let no Apache Kafka start on the folder until `let_kafka_in`."""
        self._rename(META_PROPERTIES, META_PROPERTIES_SET_ASIDE)

    def let_kafka_in(self) -> None:
        self._rename(META_PROPERTIES_SET_ASIDE, META_PROPERTIES)

    def _rename(self, name: str, other: str) -> None:
        if (self.path / name).exists():
            (self.path / name).replace(self.path / other)
            sync_path(str(self.path))


def encoded_id(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def decoded_id(text: str) -> bytes:
    return urlsafe_b64decode(text + "==")


def is_in_use(folder: Path) -> bool:
    """Whether a broker runs on the folder. Nothing is created."""
    try:
        with _locked(folder, os.O_RDWR):
            return False
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True


@contextmanager
def locked(folders: Iterable[Path]) -> Iterator[None]:
    """Keep Kafka and Penstock off the folders; raises AdoptionError if one of them is there already."""
    with ExitStack() as release:
        for folder in folders:
            try:
                release.enter_context(_locked(folder, os.O_RDWR | os.O_CREAT))
            except BlockingIOError:
                raise AdoptionError(in_use(folder)) from None
        yield


def in_use(folder: Path) -> str:
    return f"{folder} is in use: stop the broker that runs on it first"


@contextmanager
def _locked(folder: Path, flags: int) -> Iterator[None]:
    """Kafka locks the file as Java does (`fcntl`), Penstock as a whole (`flock`): both are taken."""
    descriptor = os.open(folder / LOCK, flags | OPEN_FLAGS, 0o644)
    try:
        try:
            _lock_as_java(descriptor)
            lock_file(descriptor)
        except OSError as error:
            raise BlockingIOError(error.errno, error.strerror) from error
        yield
    finally:
        os.close(descriptor)


def _lock_as_java(descriptor: int) -> None:
    try:
        import fcntl
    except ImportError:  # on Windows `lock_file` is what Java does
        return
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def topic_id_of(partition: Path) -> bytes | None:
    """The topic that a partition's folder belongs to; None if it does not say."""
    try:
        match = _TOPIC_ID.search((partition / PARTITION_METADATA_FILE).read_text())
        return decoded_id(match[1]) if match is not None else None
    except (OSError, ValueError):
        return None


def has_old_records(partition: Path) -> bool:
    """Whether a segment begins with a batch older than format 2, which Kafka wrote before 0.11 and 4.0 gave up."""
    for segment in partition.glob("*.log"):
        with segment.open("rb") as file:
            head = file.read(_MAGIC_AT + 1)
        if len(head) > _MAGIC_AT and head[_MAGIC_AT] < _OLDEST_MAGIC:
            return True
    return False


def bytes_in(partition: Path) -> int:
    return sum(entry.stat().st_size for entry in os.scandir(partition))
