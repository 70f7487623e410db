"""`python -m tests.kafka_tests.server penstock|kafka FOLDER PORT PROTOCOL name=value ...`: becomes a broker there.

PROTOCOL is the security protocol of its listener, which is named like it.
Called by the Java side for each test, and again with the same folder when a test restarts its broker.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bench.peers import SMALL_JVM_OPTIONS, KafkaPeer, Peer, PenstockPeer


def broker(kind: str, folder: Path, port: int, protocol: str, settings: dict[str, str]) -> Peer:
    peer: Peer
    if kind == "kafka":
        peer = KafkaPeer(settings, folder, SMALL_JVM_OPTIONS, protocol=protocol)
    else:
        peer = PenstockPeer(settings, folder, protocol=protocol)
    peer.port = port
    return peer


def main() -> None:
    kind, folder, port, protocol, *pairs = sys.argv[1:]
    settings = dict(pair.split("=", 1) for pair in pairs)
    peer = broker(kind, Path(folder), int(port), protocol, settings)
    peer.prepare()
    command = peer.command()
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
