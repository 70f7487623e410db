"""`python -m tests.adoption.record`: makes the recorded folder of Apache Kafka that the default tests take over.

Needs java and mvn. The folder is packed together with what Kafka itself served from it.
"""

from __future__ import annotations

import json
import shutil
import tarfile
import tempfile
from pathlib import Path

from bench.peers import SMALL_JVM_OPTIONS, KafkaPeer
from tests.adoption import kafka_load

RECORDING = Path(__file__).parent / "kafka-4.3.1.tar.xz"
OBSERVED = "observed.json"


def as_json(observed: dict[str, object]) -> str:
    return json.dumps(observed, default=lambda raw: raw.decode(), sort_keys=True)


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="kafka-recording-"))
    try:
        peer = KafkaPeer({**kafka_load.SETTINGS, "log.dirs": f"{folder}/data,{folder}/more"}, folder, SMALL_JVM_OPTIONS)
        with peer:
            held = kafka_load.fill(peer.bootstrap)
            observed = as_json(kafka_load.observe(peer.bootstrap))
        del held
        (folder / OBSERVED).write_text(observed)
        with tarfile.open(RECORDING, "w:xz", preset=9) as archive:
            for name in ("data", "more", OBSERVED):
                archive.add(folder / name, name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"wrote {RECORDING}: {RECORDING.stat().st_size} bytes")


if __name__ == "__main__":
    main()
