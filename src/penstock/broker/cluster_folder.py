"""Mark a data folder whose catalog is in PostgreSQL with its own id and the cluster that it belongs to.

Records without their catalog, or with another one, are of no use, and a broker would set them aside as strays. The file
`cluster.json` keeps a folder from being used with the database of another cluster, or without one.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from penstock.catalog.contract import CatalogError
from penstock.log.files import write_file

CLUSTER_FILE = "cluster.json"
EXPORT_FILE = "cluster-export.json"
"""In a folder while a cluster is being written into it."""
RESTORE_FILE = "backup-restore.json"
"""In a folder while a backup is being restored into it."""
BACKUP_MANIFEST = "backup.json"
"""In the folder of a backup."""
KAFKAS_FILES = ("meta.properties", "meta.properties.adopted")
EMBEDDED_CATALOG = "catalog.sqlite"
UNFINISHED_ADOPTION = EMBEDDED_CATALOG + ".adopting"


class ClusterFolder:
    """The caller holds the folder's lock. A new folder is given its id before a catalog hears of it."""

    def __init__(self, data: Path) -> None:
        self._path = data / CLUSTER_FILE
        self.folder_id = uuid.uuid4().hex
        self.cluster_id: str | None = None
        try:
            text = self._path.read_text()
        except FileNotFoundError:
            self._write()
            return
        except OSError as error:
            raise CatalogError(f"{self._path} cannot be read: {error.strerror}") from error
        try:
            found = json.loads(text)
            self.folder_id, self.cluster_id = found["folder_id"], found["cluster_id"]
        except (ValueError, KeyError, TypeError) as error:
            raise CatalogError(f"{self._path} is damaged: restore it from a backup of the folder") from error

    def belong_to(self, cluster_id: str) -> None:
        """To a cluster, and of those that were made from its backups to one."""
        if self.cluster_id != cluster_id:
            self.cluster_id = cluster_id
            self._write()

    def _write(self) -> None:
        text = json.dumps({"folder_id": self.folder_id, "cluster_id": self.cluster_id})
        try:
            write_file(str(self._path), text.encode(), sync=True)
        except OSError as error:
            raise CatalogError(f"{self._path} cannot be written: {error.strerror}") from error


def check_embedded(data: Path) -> None:
    """Raise CatalogError if the folder's catalog is in PostgreSQL, or if the folder is Apache Kafka's.

    A broker would set all partitions of the latter aside, because no catalog knows them.
    """
    if not (data / EMBEDDED_CATALOG).exists():
        if (data / UNFINISHED_ADOPTION).exists():
            raise CatalogError(f"{data} is taken over from Apache Kafka in part only: repeat 'penstock adopt'")
        if any((data / name).exists() for name in KAFKAS_FILES):
            raise CatalogError(f"{data} belongs to Apache Kafka: take it over with 'penstock adopt {data}' first")
    if (data / EXPORT_FILE).exists() and not (data / EMBEDDED_CATALOG).exists():
        raise CatalogError(
            f"{data} holds an export that was not finished: repeat 'penstock cluster export {data}' with the same "
            "--cluster, or remove the folder"
        )
    if (data / RESTORE_FILE).exists() and not (data / EMBEDDED_CATALOG).exists():
        raise CatalogError(
            f"{data} holds a backup that was not restored to the end: repeat 'penstock backup restore' with the same "
            "folders, or remove the folder"
        )
    if (data / BACKUP_MANIFEST).exists():
        raise CatalogError(
            f"{data} is a backup, which no broker may change: make a data folder of it with 'penstock backup restore "
            f"{data} --data NEW_FOLDER'"
        )
    if (data / CLUSTER_FILE).exists():
        raise CatalogError(
            f"{data} belongs to a cluster whose topics, users and rules are in PostgreSQL: start its broker with "
            "--cluster, and have the running broker change users and rules"
        )
