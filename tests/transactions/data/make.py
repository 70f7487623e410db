"""Makes the files beside it: logs of a real Apache Kafka with transactions in several states. Needs java.

    python -m tests.transactions.data.make

A fresh Kafka is started, `MakeTransactions.java` leaves transactional ids that are empty, committed, aborted and open,
and prints what Kafka says of them. Then Kafka is killed, so that the files are those of a crash, and the segments of
`orders` and of the partitions of `__transaction_state` that were used are copied here, with Kafka's words as
`expected.json`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from bench.peers import SMALL_JVM_OPTIONS, KafkaPeer, java_command

HERE = Path(__file__).parent


def main() -> None:
    with KafkaPeer(jvm_options=SMALL_JVM_OPTIONS) as kafka:
        program = [*java_command(), str(HERE / "MakeTransactions.java"), kafka.bootstrap]
        done = subprocess.run(program, capture_output=True, text=True, check=True)
        words = [line for line in done.stdout.splitlines() if line.startswith("{")][-1]
        keep, kafka._owns_folder = kafka._owns_folder, False
        kafka.stop(kill=True)
        kafka._owns_folder = keep
        copy(kafka.data)
        kafka.stop()
    (HERE / "expected.json").write_text(json.dumps(json.loads(words), indent=1) + "\n")


def copy(data: Path) -> None:
    for folder in sorted([*data.glob("orders-*"), *data.glob("__transaction_state-*")]):
        used = [path for path in folder.iterdir() if path.suffix in (".log", ".txnindex", ".snapshot")]
        if not any(path.suffix == ".log" and path.stat().st_size for path in used):
            continue
        target = HERE / "kafka-4.3.1" / folder.name
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for path in used:
            shutil.copy(path, target)


if __name__ == "__main__":
    main()
