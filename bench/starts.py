"""`python -m bench.starts`: how long a start takes after a clean stop and after a kill, with many partitions.

Each round starts the same broker on the same data twice: after a stop, and after a SIGKILL that followed writes to some
of the partitions. CPU seconds until the first answer are the figure to compare, because other processes do not change
them; seconds on the clock stand beside them. The medians and their ratio come last.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

import click
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.peers import PenstockPeer

_PER_TOPIC = 1000
_SETTINGS = {"log.retention.ms": "-1"}


def write(peer: PenstockPeer, topics: list[str], partitions: int, records: int) -> None:
    """A few records to each of the first partitions, each record in a batch of its own."""
    producer = Producer({"bootstrap.servers": peer.bootstrap, "acks": 1, "linger.ms": 0, "log_level": 0})
    for _ in range(records):
        for number in range(partitions):
            producer.produce(topics[number // _PER_TOPIC], bytes(100), partition=number % _PER_TOPIC)
            producer.poll(0)
        if producer.flush(120):
            raise click.ClickException("the broker did not take all records")


def started(peer: PenstockPeer) -> tuple[float, float]:
    """CPU seconds and seconds on the clock until the first answer."""
    peer.start()
    return peer.cpu_s(), peer.start_ms / 1000


@click.command(help=__doc__.partition("\n\n")[2])
@click.option("--partitions", default=10_000, show_default=True)
@click.option("--written", default=1000, show_default=True, help="Partitions written to before each kill.")
@click.option("--records", default=3, show_default=True, help="Records written to each of them.")
@click.option("--rounds", default=3, show_default=True)
def main(partitions: int, written: int, records: int, rounds: int) -> None:
    topics = [f"t{number}" for number in range((partitions + _PER_TOPIC - 1) // _PER_TOPIC)]
    found: dict[str, list[tuple[float, float]]] = {"clean": [], "killed": []}
    with tempfile.TemporaryDirectory(prefix="bench-starts-") as folder:
        peer = PenstockPeer(_SETTINGS, Path(folder))
        try:
            peer.start()
            admin = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 0})
            for topic in topics:
                count = min(_PER_TOPIC, partitions - topics.index(topic) * _PER_TOPIC)
                admin.create_topics([NewTopic(topic, count, 1)])[topic].result(120)
            write(peer, topics, partitions, 1)
            for _ in range(rounds):
                peer.stop()
                found["clean"].append(started(peer))
                write(peer, topics, min(written, partitions), records)
                peer.stop(kill=True)
                found["killed"].append(started(peer))
                for how, measured in found.items():
                    click.echo(f"{how:>6}: {measured[-1][0]:6.2f} s CPU, {measured[-1][1]:6.2f} s")
        finally:
            peer.stop(kill=True)
    cpu = {how: statistics.median(each[0] for each in measured) for how, measured in found.items()}
    click.echo(
        f"median: {cpu['clean']:.2f} s CPU clean, {cpu['killed']:.2f} s killed: {cpu['killed'] / cpu['clean']:.2f}x"
    )


if __name__ == "__main__":
    main()
