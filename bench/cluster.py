"""`python -m bench.cluster`: Penstock over PostgreSQL and an S3 server beside Apache Kafka with three nodes.

Everything is on this machine: three brokers, PostgreSQL and SeaweedFS on the one side, three JVMs with replication 3
and `min.insync.replicas=2` on the other. Both clusters run all the time and rounds alternate, so that both see the same
machine; medians are reported. Rows can be chosen, since each takes a minute or more:

  produce    one default librdkafka producer, records of 1 KiB, acks=all, with the requests that it costs
  java       the same with one default producer of Apache Kafka's Java client
  single     one record at a time, acks=all: latencies and rate
  takeover   how long clients pause when their broker is killed, stopped, parted or drained, with 1,000 partitions
  catchup    a consumer that reads from the store, beside a bare loop of ranged GETs
  cache      a consumer that reads what the cache holds, beside the embedded engine
  scale      produce and single records with 10, 1,000 and 10,000 partitions, of which 1 % (at least 3) are written to
  idle       what an idle cluster asks of PostgreSQL and of the store
  changes    how long after a change of a topic, a config, a rule or a user every broker shows it; Penstock alone
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import statistics
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import click
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.changes import WITH_RULES, seen_by_all
from bench.clusters import STORE, Cluster, KafkaCluster, PenstockCluster
from bench.network import can_cut_off
from bench.objects import SHORT_TAILS, bare_reads, caught_up, until_stored
from bench.peers import PeerError, PenstockPeer, run_java_tool
from bench.takeover import FAULTS, PARTITION, is_possible, take_over
from penstock.storage.objects.store import ObjectStore

_RECORD = bytes(os.urandom(1024))
_PUT_DOLLARS = 5e-6
_MONTH_SECONDS = 30 * 86_400
_SIZES = 10, 1_000, 10_000
_TAKE_OVER_PARTITIONS = 1000
_IDLE_SECONDS = 20
_CHANGES_PER_ROUND = 20
_STATISTICS_SECONDS = 20
"""PostgreSQL's statistics are up to ten seconds old, so they say nothing about shorter times."""

Say = Callable[[str, str], None]


class Run:
    def __init__(
        self,
        clusters: dict[str, Cluster],
        megabytes: int,
        rounds: int,
        warm_up: float,
        say: Say,
        faults: Sequence[str] = FAULTS,
    ) -> None:
        self.clusters = clusters
        self.faults = faults
        self.sizes: Sequence[int] = _SIZES
        self.take_over_partitions = _TAKE_OVER_PARTITIONS
        self.megabytes = megabytes
        self.rounds = rounds
        self.warm_up = warm_up
        self.say = say
        self._topics = 0

    def topic(self, cluster: Cluster, partitions: int) -> str:
        self._topics += 1
        name = f"bench-{self._topics}"
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        replicas = min(3, len(cluster.ports))
        admin.create_topics([NewTopic(name, partitions, replicas)], request_timeout=120)[name].result(180)
        self.await_leaders(cluster, name, partitions)
        return name

    @staticmethod
    def await_leaders(cluster: Cluster, name: str, partitions: int) -> None:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            found = admin.list_topics(name, timeout=60).topics[name].partitions
            if len(found) == partitions and all(each.leader > 0 for each in found.values()):
                return
            time.sleep(0.2)
        raise click.ClickException(f"{name} has partitions without a leader after two minutes")

    def in_turns(self, measure: Callable[[Cluster], float]) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {name: [] for name in self.clusters}
        for number in range(self.rounds):
            order = list(self.clusters.items())
            for name, cluster in order if number % 2 == 0 else order[::-1]:
                found[name].append(measure(cluster))
        return found

    def warm(self, topics: dict[str, str]) -> None:
        until = time.monotonic() + self.warm_up
        while time.monotonic() < until:
            for name, cluster in self.clusters.items():
                produce(cluster, topics[name], 20)


def produce(cluster: Cluster, topic: str, megabytes: float, partitions: int | None = None) -> float:
    """MB/s of one default producer; only the first `partitions` are written to, if that is given."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    failures: list[object] = []

    def heard(error: object, message: object) -> None:
        if error is not None:
            failures.append(error)

    count = int(megabytes * 1e6) // len(_RECORD)
    started = time.monotonic()
    for number in range(count):
        chosen: dict[str, Any] = {} if partitions is None else {"partition": number % partitions}
        while True:
            try:
                producer.produce(topic, _RECORD, on_delivery=heard, **chosen)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    left = producer.flush(300)
    if left or failures:
        raise click.ClickException(f"{left} records were not taken, and {len(failures)} failed: {failures[:1]}")
    return count * len(_RECORD) / 1e6 / (time.monotonic() - started)


def singles(cluster: Cluster, topic: str, seconds: float, partitions: int | None = None) -> list[float]:
    """Milliseconds of each record that is awaited before the next is sent."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0})
    found: list[float] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        started = time.monotonic()
        chosen: dict[str, Any] = {} if partitions is None else {"partition": len(found) % partitions}
        producer.produce(topic, _RECORD, **chosen)
        if producer.flush(60):
            raise click.ClickException("a record was not taken within a minute")
        found.append((time.monotonic() - started) * 1000)
    return sorted(found[10:])


def _median(values: list[float]) -> str:
    shown = ", ".join(f"{value:.1f}" for value in values)
    return f"{statistics.median(values):.1f} (rounds {shown})"


class Costs:
    """What the store and PostgreSQL are asked for while something is measured, and what that costs."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster if isinstance(cluster, PenstockCluster) else None
        self.text = ""
        """Of the last measurement; empty for other clusters."""

    @contextmanager
    def of(self, megabytes: float) -> Iterator[None]:
        if self._cluster is None:
            yield
            return
        before, started = self._cluster.figures(), time.monotonic()
        yield
        after, elapsed = self._cluster.figures(), time.monotonic() - started
        puts = sum(after[name] - before[name] for name in ("uploads_total", "segments_total"))
        commits = after["commits_total"] - before["commits_total"]
        self.text = (
            f"{puts / elapsed:.1f} PUTs/s, {puts / megabytes:.3f} per MB "
            f"(${puts / megabytes * 1e6 * _PUT_DOLLARS:.2f} a TB, "
            f"${puts / elapsed * _MONTH_SECONDS * _PUT_DOLLARS:.2f} a month without a pause); "
            f"{commits / elapsed:.1f} commits/s, {commits / megabytes:.3f} per MB"
        )
        if elapsed >= _STATISTICS_SECONDS:
            requests = after["postgres_transactions"] - before["postgres_transactions"]
            self.text += f"; {requests / elapsed:.1f} transactions of PostgreSQL/s, {requests / megabytes:.2f} per MB"


def _in_turns_with_costs(run: Run, measure: Callable[[Cluster], float], megabytes: float) -> dict[str, list[float]]:
    """Rounds as `Run.in_turns`; what the last of them has cost is said."""
    costs = {name: Costs(cluster) for name, cluster in run.clusters.items()}

    def counted(cluster: Cluster) -> float:
        with costs[cluster.name].of(megabytes):
            return measure(cluster)

    found = run.in_turns(counted)
    for each in costs.values():
        if each.text:
            run.say("requests, last round", each.text)
    return found


def row_produce(run: Run) -> None:
    topics = {name: run.topic(cluster, 3) for name, cluster in run.clusters.items()}
    run.warm(topics)

    def measure(cluster: Cluster) -> float:
        return produce(cluster, topics[cluster.name], run.megabytes)

    for name, rates in _in_turns_with_costs(run, measure, run.megabytes).items():
        run.say(f"produce 1 KiB, acks=all, librdkafka, {name}", f"{_median(rates)} MB/s")


def row_java(run: Run) -> None:
    topics = {name: run.topic(cluster, 3) for name, cluster in run.clusters.items()}

    def measure(cluster: Cluster) -> float:
        done = run_java_tool(
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", topics[cluster.name], "--num-records", str(run.megabytes * 1000), "--record-size", "1024"),
            *("--throughput", "-1", "--producer-props", f"bootstrap.servers={cluster.bootstrap}"),
            timeout_s=600,
        )
        rates = re.findall(r"\(([\d.]+) MB/sec\)", done.stdout)
        if not rates:
            raise click.ClickException(f"the Java producer failed: {done.stdout[-500:]}{done.stderr[-500:]}")
        return float(rates[-1]) * 1.048576

    for name, rates in _in_turns_with_costs(run, measure, run.megabytes * 1.024).items():
        run.say(f"produce 1 KiB, default Java producer, {name}", f"{_median(rates)} MB/s")


def row_single(run: Run) -> None:
    topics = {name: run.topic(cluster, 3) for name, cluster in run.clusters.items()}
    found: dict[str, list[list[float]]] = {name: [] for name in run.clusters}

    def measure(cluster: Cluster) -> float:
        latencies = singles(cluster, topics[cluster.name], 8)
        found[cluster.name].append(latencies)
        return statistics.median(latencies)

    run.in_turns(measure)
    for name, rounds in found.items():
        tails = statistics.median(each[int(len(each) * 0.99)] for each in rounds)
        rates = statistics.median(len(each) / (sum(each) / 1000) for each in rounds)
        middle = statistics.median(statistics.median(each) for each in rounds)
        run.say(f"one record at a time, {name}", f"p50 {middle:.1f} ms, p99 {tails:.1f} ms, {rates:.0f}/s")


def row_takeover(run: Run) -> None:
    topics = {name: run.topic(cluster, run.take_over_partitions) for name, cluster in run.clusters.items()}
    found: dict[tuple[str, str, str], list[float]] = {}
    if PARTITION in run.faults and not can_cut_off():
        run.say("pause after a partition of the network", "not measured: it needs root and iptables")
    for number in range(run.rounds):
        for kind_number, kind in enumerate(run.faults):
            for name, cluster in run.clusters.items():
                if not is_possible(cluster, kind):
                    continue
                pauses = take_over(cluster, topics[name], kind, number * len(run.faults) + kind_number)
                for probe, seconds in pauses.items():
                    found.setdefault((kind, name, probe), []).append(seconds)
                so_far = ", ".join(f"{probe} {seconds:.2f} s" for probe, seconds in pauses.items())
                click.echo(f"{kind}, {name}, round {number + 1}: {so_far}; load {os.getloadavg()[0]:.1f}", err=True)
                time.sleep(10)
    for (kind, name, probe), values in sorted(found.items(), key=lambda item: (item[0][0], item[0][2])):
        shown = ", ".join(f"{value:.2f}" for value in values)
        run.say(f"pause after {kind}, {probe}, {name}", f"{statistics.median(values):.2f} s ({shown})")


def row_catchup(run: Run) -> None:
    cluster = run.clusters.get("penstock")
    if not isinstance(cluster, PenstockCluster):
        return
    topic = run.topic(cluster, 3)
    produce(cluster, topic, run.megabytes)
    shipped = cluster.settings | SHORT_TAILS
    cluster.settings, shipped = shipped, cluster.settings
    for number in cluster.ports:
        cluster.send(number, signal.SIGTERM)
        cluster.await_end(number)
        cluster.recover(number)
    until_stored(cluster.postgres.url(), topic)
    cluster.settings = shipped
    for number in cluster.ports:
        cluster.send(number, signal.SIGKILL)
        cluster.await_end(number)
        shutil.rmtree(cluster.data(number))
        cluster.recover(number)
    run.await_leaders(cluster, topic, 3)
    count = int(run.megabytes * 1e6) // len(_RECORD)
    before = cluster.figures()["fetched_bytes_total"]
    cold = caught_up(cluster.bootstrap, 3, count, topic)
    fetched = (cluster.figures()["fetched_bytes_total"] - before) / 1e6
    again = caught_up(cluster.bootstrap, 3, count, topic)
    os.environ.update(cluster.s3.environment)
    bare = bare_reads(ObjectStore.open(STORE), run.megabytes * 1e6)
    run.say(
        "catching up from the store, penstock",
        f"{cold:.1f} MB/s ({fetched:.0f} MB were fetched), "
        f"bare ranged GETs {bare:.1f} MB/s, ratio {cold / bare:.2f}; again, from the cache {again:.1f} MB/s",
    )


def row_cache(run: Run) -> None:
    cluster = run.clusters.get("penstock")
    if cluster is None:
        return
    count = int(run.megabytes * 1e6) // len(_RECORD)
    with PenstockPeer() as embedded:
        topics = {}
        for bootstrap in (cluster.bootstrap, embedded.bootstrap):
            admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
            admin.create_topics([NewTopic("cached", 3, 1)])["cached"].result(60)
            topics[bootstrap] = "cached"
        time.sleep(3)
        produce(cluster, "cached", run.megabytes)
        holder = Cluster(0)
        holder.ports = {1: embedded.port}
        produce(holder, "cached", run.megabytes)
        rates: dict[str, list[float]] = {"penstock": [], "embedded": []}
        for _ in range(run.rounds):
            rates["penstock"].append(caught_up(cluster.bootstrap, 3, count, "cached"))
            rates["embedded"].append(caught_up(embedded.bootstrap, 3, count, "cached"))
    for name, values in rates.items():
        run.say(f"consuming what the cache holds, {name}", f"{_median(values)} MB/s")


def row_scale(run: Run) -> None:
    for partitions in run.sizes:
        active = max(3, partitions // 100)
        for name, cluster in run.clusters.items():
            if partitions > 1_000 and not isinstance(cluster, PenstockCluster):
                continue
            started = time.monotonic()
            topic = run.topic(cluster, partitions)
            created = time.monotonic() - started
            produce(cluster, topic, 10, active)
            costs = Costs(cluster)
            with costs.of(run.megabytes / 2):
                rate = produce(cluster, topic, run.megabytes / 2, active)
            latencies = singles(cluster, topic, 6, active)
            p99 = latencies[int(len(latencies) * 0.99)]
            run.say(
                f"{partitions} partitions, {active} active, {name}",
                f"{rate:.1f} MB/s, one record at a time p50 {statistics.median(latencies):.1f} ms, p99 {p99:.1f} ms; "
                f"created in {created:.1f} s",
            )
            if costs.text:
                run.say(f"requests with {partitions} partitions", costs.text)


def row_idle(run: Run) -> None:
    cluster = run.clusters.get("penstock")
    if not isinstance(cluster, PenstockCluster):
        return
    while cluster.figures()["chores_waiting"]:
        time.sleep(0.5)
    time.sleep(5)
    before = cluster.figures()
    time.sleep(_IDLE_SECONDS)
    after = cluster.figures()
    puts = sum(after[name] - before[name] for name in ("uploads_total", "segments_total"))
    requests = (after["postgres_transactions"] - before["postgres_transactions"]) / _IDLE_SECONDS
    run.say(f"idle for {_IDLE_SECONDS} s, penstock", f"{puts:.0f} PUTs, {requests:.1f} transactions of PostgreSQL/s")


def row_changes(run: Run) -> None:
    cluster = run.clusters.get("penstock")
    if cluster is None:
        return
    with PenstockCluster(len(cluster.ports), WITH_RULES) as guarded:
        found = asyncio.run(seen_by_all(guarded.bootstrap, _CHANGES_PER_ROUND * run.rounds))
    for kind, times in found.items():
        run.say(
            f"{kind} changed until all brokers show it, penstock",
            f"median {statistics.median(times):.1f} ms, max {max(times):.1f} ms, of {len(times)}",
        )


ROWS: dict[str, Callable[[Run], None]] = {
    "produce": row_produce,
    "java": row_java,
    "single": row_single,
    "takeover": row_takeover,
    "catchup": row_catchup,
    "cache": row_cache,
    "scale": row_scale,
    "idle": row_idle,
    "changes": row_changes,
}


def _chosen(names: str, what: str, known: Collection[str]) -> list[str]:
    chosen = names.split(",")
    unknown = set(chosen) - set(known)
    if unknown:
        raise click.ClickException(f"there are no {what} {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return chosen


@click.command(help=__doc__.partition("\n\n")[2])
@click.option("--rows", default=",".join(ROWS), show_default=True, help="Which rows, separated by commas.")
@click.option("--brokers", default=3, show_default=True, help="How many brokers of Penstock.")
@click.option("--without-kafka", is_flag=True, help="Measure Penstock alone.")
@click.option("--megabytes", default=200, show_default=True, help="How much a round produces.")
@click.option("--rounds", default=5, show_default=True)
@click.option("--faults", default=",".join(FAULTS), show_default=True, help="Which faults the row takeover has.")
@click.option("--quick", is_flag=True, help="One small round of everything, which only shows that it runs.")
@click.option("--warm-up", default=60.0, show_default=True, help="Seconds of load before the first row is measured.")
def main(
    rows: str,
    brokers: int,
    without_kafka: bool,
    megabytes: int,
    rounds: int,
    faults: str,
    warm_up: float,
    quick: bool,
) -> None:
    chosen, struck = _chosen(rows, "rows", ROWS), _chosen(faults, "faults", FAULTS)

    if quick:
        megabytes, rounds, warm_up = 20, 1, 0.0

    def say(what: str, figure: str) -> None:
        click.echo(f"{what:58} {figure}")

    try:
        with ExitStack() as stack:
            clusters: dict[str, Cluster] = {"penstock": stack.enter_context(PenstockCluster(brokers))}
            if not without_kafka:
                clusters["kafka"] = stack.enter_context(KafkaCluster())
            run = Run(clusters, megabytes, rounds, warm_up, say, struck)
            if quick:
                run.sizes, run.take_over_partitions = (10, 100), 30
            for name in chosen:
                ROWS[name](run)
    except PeerError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
