"""The recorded folders of Apache Kafka, unpacked, and what is to be served from them."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

from penstock.testing.broker import Broker
from tests.adoption import kafka_load
from tests.adoption.record import OBSERVED, RELEASES, as_json, recording

CONFIGS = {
    "node.id": "1",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "group.share.delivery.count.limit": "10",
}


class Recorded:
    """What a real Apache Kafka with two log.dirs has left, in a folder of its own."""

    def __init__(self, root: Path, version: str) -> None:
        self.root = root
        self.version = version
        with tarfile.open(recording(version)) as archive:
            archive.extractall(root, filter="data")

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def more(self) -> Path:
        return self.root / "more"

    @property
    def folders(self) -> list[Path]:
        return [self.data, self.more]

    @property
    def metadata(self) -> Path:
        return self.data / "__cluster_metadata-0"

    def expected(self) -> dict[str, Any]:
        """What the first broker after Kafka serves: what Kafka did, with the queue's records delivered once more."""
        observed: dict[str, Any] = json.loads((self.root / OBSERVED).read_text())
        release = RELEASES[self.version]
        if release.has_queues and release.counts_what_was_given_back:
            observed["records of the queue"] = kafka_load.delivered_once_more(observed["records of the queue"])
        return observed

    def served(self, data: Path | None = None) -> dict[str, Any]:
        with Broker(CONFIGS, data=data or self.data) as broker:
            return observed(broker.bootstrap_servers, has_queues=RELEASES[self.version].has_queues)


def observed(bootstrap: str, *, has_queues: bool = True) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(as_json(kafka_load.observe(bootstrap, has_queues=has_queues)))
    return found


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }
