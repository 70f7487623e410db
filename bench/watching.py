"""`python -m bench.watching`: what it costs a broker to watch itself.

Two brokers of the same kind serve the same requests in turns: one without metrics, one with them, with clients that
push theirs (KIP-714) and a scrape every five seconds. The figure is the CPU time of the broker's process for a request,
which other processes change less than they change rates; where the broker's CPU is the limit, rates differ by the same
share.

Scrapes, pushes and timers come by the clock and not with requests: on a machine that does other work too, there would
be more of them for each request. So both brokers are also measured while nobody sends requests. What they use then is
taken off the requests, and counts as the share of a core that it is.
"""

from __future__ import annotations

import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.request import urlopen

import click

from bench.latency import exchange, fetch_request, produce_request
from bench.peers import HOST, PenstockPeer, free_port
from penstock.client import sync
from penstock.client.admin import NewTopic, ResourceType

_TOPIC = "watched"
_SCRAPE_SECONDS = 5.0
_PUSH_MS = 5_000

Work = Callable[[socket.socket], None]


class Side:
    """A broker, a connection to it, and what its process has used."""

    def __init__(self, peer: PenstockPeer) -> None:
        self._tasks = Path(f"/proc/{peer.pid}/task")
        self._connection = socket.create_connection((HOST, peer.port), timeout=30)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._figures: dict[str, list[tuple[float, float, int]]] = {}
        """By the name of the work: seconds of CPU, seconds, and requests."""
        self._idle = 0.0

    def run(self, name: str, request: bytes, times: int) -> None:
        with self._measured(name, times):
            for _ in range(times):
                exchange(self._connection, request)

    def rest(self, seconds: float) -> None:
        """Measure the broker while it has no requests."""
        began, used = time.monotonic(), self._used()
        time.sleep(seconds)
        self._idle = (self._used() - used) / (time.monotonic() - began)

    @contextmanager
    def _measured(self, name: str, times: int) -> Iterator[None]:
        began, used = time.monotonic(), self._used()
        yield
        self._figures.setdefault(name, []).append((self._used() - used, time.monotonic() - began, times))

    def forget(self) -> None:
        self._figures.clear()

    def _used(self) -> float:
        """Seconds of CPU of all threads, as the scheduler counts them: `times` counts in hundredths of a second."""
        return sum(int(file.read_text().split()[0]) for file in self._tasks.glob("*/schedstat")) / 1e9

    @property
    def idle_percent(self) -> float:
        """Of a core, without requests."""
        return self._idle * 100

    def median(self, name: str) -> float:
        """Microseconds for a request, without what is used by the clock."""
        figures = self._figures[name]
        return statistics.median((used - self._idle * seconds) / times * 1e6 for used, seconds, times in figures)

    def close(self) -> None:
        self._connection.close()


@contextmanager
def scraped(port: int) -> Iterator[None]:
    over = threading.Event()

    def scrape() -> None:
        while not over.wait(_SCRAPE_SECONDS):
            with urlopen(f"http://{HOST}:{port}/metrics", timeout=30) as answer:
                answer.read()

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def measure(requests: int, rounds: int, size: int, rest: float) -> Iterator[str]:
    port = free_port()
    watched = {"penstock.metrics.listen": f"{HOST}:{port}"}
    with ExitStack() as stack:
        peers = [stack.enter_context(PenstockPeer(settings)) for settings in ({}, watched)]
        for peer in peers:
            with sync.Admin(bootstrap_servers=peer.bootstrap) as admin:
                admin.create_topics([NewTopic(_TOPIC, 1)])
        admin = stack.enter_context(sync.Admin(bootstrap_servers=peers[1].bootstrap))
        admin.alter_configs(ResourceType.CLIENT_METRICS, "often", {"metrics": "*", "interval.ms": str(_PUSH_MS)})
        pushing = stack.enter_context(sync.Producer(bootstrap_servers=peers[1].bootstrap))
        pushing.send(_TOPIC, b"x").result(30)
        plain, measured = sides = [Side(peer) for peer in peers]
        for side in sides:
            stack.callback(side.close)
        stack.enter_context(scraped(port))
        plain.run("first", produce_request(_TOPIC, size), 1)  # the other has a record already
        work = {"produce": produce_request(_TOPIC, size), "fetch": fetch_request(_TOPIC)}
        for number in range(rounds + 1):
            for name, request in work.items():
                for side in sides if number % 2 else reversed(sides):
                    side.run(name, request, requests)
            if not number:  # both have warmed up
                for side in sides:
                    side.forget()
        resting = [threading.Thread(target=side.rest, args=(rest,)) for side in sides]
        for thread in resting:
            thread.start()
        for thread in resting:
            thread.join()
        by_the_clock = measured.idle_percent - plain.idle_percent
        for name in work:
            before, after = plain.median(name), measured.median(name)
            share = (after - before) / before * 100
            yield (
                f"{name:<8} {before:6.1f} us of CPU, watched {after:.1f} us: {after - before:+.1f} us, {share:+.1f} %; "
                f"with what is done by the clock {share + by_the_clock:+.1f} %"
            )
        yield (
            f"without requests {plain.idle_percent:.2f} % of a core, watched {measured.idle_percent:.2f} %: "
            f"{by_the_clock:+.2f} %"
        )


@click.command(help=__doc__.partition("\n\n")[2])
@click.option("--requests", default=4000, show_default=True, help="Of each kind in a round.")
@click.option("--rounds", default=10, show_default=True)
@click.option("--size", default=16_384, show_default=True, help="Bytes of a record that is produced.")
@click.option("--rest", default=20.0, show_default=True, help="Seconds without requests.")
def main(requests: int, rounds: int, size: int, rest: float) -> None:
    began = time.monotonic()
    for line in measure(requests, rounds, size, rest):
        click.echo(line)
    click.echo(f"{rounds} rounds of {requests:,} requests each, in turns, in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
