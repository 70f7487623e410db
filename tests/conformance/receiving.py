"""Brokers that receive the metrics of clients (KIP-714): Apache Kafka needs a plug-in for it, Penstock an endpoint."""

from __future__ import annotations

import subprocess
from pathlib import Path

from bench.peers import SMALL_JVM_OPTIONS, KafkaPeer, PeerError, PenstockPeer, kafka_jars

_SOURCE = Path(__file__).parent / "java" / "TakesEverything.java"


class ReceivingKafkaPeer(KafkaPeer):
    def __init__(self, settings: dict[str, str]) -> None:
        super().__init__({**settings, "metric.reporters": _SOURCE.stem}, jvm_options=SMALL_JVM_OPTIONS)

    @property
    def _classes(self) -> Path:
        return self.folder / "classes"

    def prepare(self) -> None:
        command = ["javac", "-nowarn", "-d", str(self._classes), "-cp", f"{kafka_jars()}/*", str(_SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise PeerError(f"compiling {_SOURCE.name} failed:\n{done.stderr}")
        super().prepare()

    def command(self) -> list[str]:
        return [part.replace(f"{kafka_jars()}/*", f"{kafka_jars()}/*:{self._classes}") for part in super().command()]


class ReceivingPenstockPeer(PenstockPeer):
    def __init__(self, settings: dict[str, str]) -> None:
        super().__init__({**settings, "penstock.metrics.listen": "127.0.0.1:0"})
