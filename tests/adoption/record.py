"""`python -m tests.adoption.record [VERSION...]`: records folders of Apache Kafka for the default tests.

Needs java and mvn. Each folder is packed together with what Kafka itself served from it.
"""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from bench.peers import SMALL_JVM_OPTIONS, KafkaPeer
from tests.adoption import kafka_load

OBSERVED = "observed.json"


@dataclass(frozen=True)
class Release:
    """What a version of Kafka has to offer."""

    protocols: tuple[str, ...] = ("classic", "consumer")
    has_queues: bool = True
    counts_what_was_given_back: bool = True
    """Whether a record that a worker left behind counts as delivered."""
    features: dict[str, int] = field(default_factory=dict)


RELEASES = {
    "3.9.1": Release(("classic",), has_queues=False),
    "4.0.0": Release(has_queues=False),
    "4.1.1": Release(counts_what_was_given_back=False, features={"share.version": 1}),
    "4.2.0": Release(),
    "4.3.1": Release(),
}
LATEST = "4.3.1"


def recording(version: str) -> Path:
    return Path(__file__).parent / f"kafka-{version}.tar.xz"


def as_json(observed: dict[str, object]) -> str:
    return json.dumps(observed, default=lambda raw: raw.decode(), sort_keys=True)


def record(version: str) -> None:
    release = RELEASES[version]
    folder = Path(tempfile.mkdtemp(prefix="kafka-recording-"))
    try:
        peer = KafkaPeer(
            {**kafka_load.SETTINGS, "log.dirs": f"{folder}/data,{folder}/more"},
            folder,
            SMALL_JVM_OPTIONS,
            version=version,
            features=release.features,
        )
        with peer:
            held = kafka_load.fill(peer.bootstrap, protocols=release.protocols, has_queues=release.has_queues)
            observed = as_json(kafka_load.observe(peer.bootstrap, has_queues=release.has_queues))
        del held
        (folder / OBSERVED).write_text(observed)
        with tarfile.open(recording(version), "w:xz", preset=9) as archive:
            for name in ("data", "more", OBSERVED):
                archive.add(folder / name, name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"wrote {recording(version)}: {recording(version).stat().st_size} bytes")


if __name__ == "__main__":
    for wanted in sys.argv[1:] or RELEASES:
        record(wanted)
