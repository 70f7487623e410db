"""`python -m tests.kafka_tests.server penstock|kafka FOLDER PORT name=value ...`: becomes a broker on this port.

Called by the Java side for each test, and again with the same folder when a test restarts its broker.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bench.peers import SMALL_JVM_OPTIONS, KafkaPeer, Peer, PenstockPeer


def broker(kind: str, folder: Path, port: int, settings: dict[str, str]) -> Peer:
    peer = KafkaPeer(settings, folder, SMALL_JVM_OPTIONS) if kind == "kafka" else PenstockPeer(settings, folder)
    peer.port = port
    return peer


def main() -> None:
    kind, folder, port, *pairs = sys.argv[1:]
    settings = dict(pair.split("=", 1) for pair in pairs)
    peer = broker(kind, Path(folder), int(port), settings)
    peer.prepare()
    command = peer.command()
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
