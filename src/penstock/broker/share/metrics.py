"""Share-group metrics under Kafka's names (KIP-932, KIP-1191), for the broker's Prometheus text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from penstock.broker.metrics import Metric
from penstock.coordination.runtime import LoadTimes
from penstock.queues.transitions import AcknowledgeType

if TYPE_CHECKING:
    from penstock.broker.share.dead_letters import DeadLetters
    from penstock.broker.share.live import LiveSharePartition
    from penstock.broker.share.sessions import OpenShareSessions
    from penstock.broker.share.windows import ShareWindows

_GROUP = "kafka_server_sharegroupmetrics_"
_PARTITION = "kafka_server_sharepartitionmetrics_"
_SESSIONS = "kafka_server_sharesessioncache_"
_TOPICS = "kafka_server_brokertopicmetrics_"
_COORDINATOR = "kafka_server_share_coordinator_metrics_"
_WINDOWS_PER_PIECE = 500


class Tallies:
    """Records in flight and held, summed by group and topic.

    There may be tens of thousands of windows, most of which have not changed since the last scrape; so a scrape looks
    at those that have.
    """

    def __init__(self) -> None:
        self._changed: set[LiveSharePartition] = set()
        self._known: dict[LiveSharePartition, _Tally] = {}
        self._sums: dict[tuple[str, str], list[int]] = {}
        """In flight, held, and the number of windows."""

    def opened(self, live: LiveSharePartition) -> None:
        sums = self._sums.setdefault(_place(live), [0, 0, 0])
        sums[2] += 1
        self._known[live] = _Tally(sums)
        self._changed.add(live)

    def changed(self, live: LiveSharePartition) -> None:
        if live in self._known:
            self._changed.add(live)

    def forgotten(self, live: LiveSharePartition) -> None:
        self._changed.discard(live)
        sums = self._known.pop(live).note((0, 0))
        sums[2] -= 1
        if not sums[2]:
            del self._sums[_place(live)]

    def metrics(self) -> Iterator[Metric | None]:
        changed, known = self._changed, self._known
        left = len(changed)  # those that change meanwhile are for the next scrape
        while left > 0:
            for _ in range(min(left, len(changed), _WINDOWS_PER_PIECE)):
                live = changed.pop()
                known[live].note(live.core.tally)
            left -= _WINDOWS_PER_PIECE
            yield None
        for at, name in enumerate(("in_flight", "held")):
            metric = Metric(f"penstock_share_group_{name}_records")
            for labels, sums in self._sums.items():
                metric.add(sums[at], *labels)
            yield metric


class _Tally:
    """What a window has in flight and held, as it counts in the sums of its group and topic."""

    __slots__ = ("_held", "_in_flight", "_sums")

    def __init__(self, sums: list[int]) -> None:
        self._sums = sums
        self._in_flight = self._held = 0

    def note(self, tally: tuple[int, int]) -> list[int]:
        """Count it as it is now; returns the sums."""
        in_flight, held = tally
        sums = self._sums
        sums[0] += in_flight - self._in_flight
        sums[1] += held - self._held
        self._in_flight, self._held = tally
        return sums


def _place(live: LiveSharePartition) -> tuple[str, str]:
    return live.group_id, live.partition.topic.name


class ShareMetrics:
    def __init__(self) -> None:
        self._acknowledgements: Counter[AcknowledgeType] = Counter()
        self.unreadable: Counter[str] = Counter()
        """Records by group that were archived because their batch cannot be read."""
        self.session_evictions = 0
        self.state_writes = 0
        self.fetches = self.failed_fetches = 0
        self.acknowledges = self.failed_acknowledges = 0
        self.expired_waits = 0
        self.deliveries: Counter[tuple[str, str]] = Counter()
        """Records handed to consumers, by group and topic; one that is delivered again counts again."""
        self.lock_timeouts: Counter[tuple[str, str]] = Counter()
        """Records whose lock ran out, by group and topic."""
        self.tallies = Tallies()
        self._loads = LoadTimes()

    def acknowledged(self, counts: Mapping[AcknowledgeType, int]) -> None:
        self._acknowledgements.update(counts)

    def partition_loaded(self, took_ms: int) -> None:
        self._loads.add(took_ms)

    def topic_deleted(self, name: str) -> None:
        for counts in (self.deliveries, self.lock_timeouts):
            for key in [key for key in counts if key[1] == name]:
                del counts[key]

    def collect(
        self, sessions: OpenShareSessions, windows: ShareWindows, letters: DeadLetters, *, partitions: bool
    ) -> Iterator[Metric | None]:
        acknowledgements = Metric(_GROUP + "recordacknowledgements_total")
        for kind in (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT, AcknowledgeType.RENEW):
            acknowledgements.add(self._acknowledgements[kind], kind.name.title())
        yield acknowledgements
        yield Metric(_GROUP + "partitionloadtimems_count").add(self._loads.count)
        yield Metric(_GROUP + "partitionloadtimems_sum").add(self._loads.total_ms)
        yield Metric(_GROUP + "partitionloadtimems_max").add(self._loads.longest_ms)
        for name, counts in (("deliveries", self.deliveries), ("lock_timeouts", self.lock_timeouts)):
            by_topic = Metric(f"penstock_share_{name}_total")
            for (group_id, topic), count in list(counts.items()):
                by_topic.add(count, group_id, topic)
            yield by_topic
        yield from _dead_letters(letters)
        unreadable = Metric("penstock_share_unreadable_records_total")
        for group_id, count in self.unreadable.items():
            unreadable.add(count, group_id)
        yield unreadable
        yield from self.tallies.metrics()
        if partitions:
            yield from _partitions(windows)
        yield Metric(_SESSIONS + "sharesessionscount").add(len(sessions))
        yield Metric(_SESSIONS + "sharepartitionscount").add(sessions.partitions())
        yield Metric(_SESSIONS + "sharesessionevictions_total").add(self.session_evictions)
        yield Metric(_TOPICS + "totalsharefetchrequests_total").add(self.fetches)
        yield Metric(_TOPICS + "failedsharefetchrequests_total").add(self.failed_fetches)
        yield Metric(_TOPICS + "totalshareacknowledgementrequests_total").add(self.acknowledges)
        yield Metric(_TOPICS + "failedshareacknowledgementrequests_total").add(self.failed_acknowledges)
        yield Metric("kafka_server_delayedoperationpurgatory_numdelayedoperations").add(
            len(sessions.parked), "ShareFetch"
        )
        yield Metric("kafka_server_delayedsharefetchmetrics_expires_total").add(self.expired_waits)
        yield Metric(_COORDINATOR + "write_total").add(self.state_writes)


def _dead_letters(letters: DeadLetters) -> Iterator[Metric]:
    for name, counts in (
        ("deadletterqueuerecordcount", letters.records),
        ("deadletterqueuetotalproducerequests_total", letters.requests),
        ("deadletterqueuefailedproducerequests_total", letters.failures),
    ):
        metric = Metric(_GROUP + name)
        for group_id, count in counts.items():
            metric.add(count, group_id)
        yield metric


def _partitions(windows: ShareWindows) -> Iterator[Metric | None]:
    in_flight = Metric(_PARTITION + "inflightmessagecount")
    locks = Metric(_PARTITION + "inflightbatchcount")
    held = Metric(_PARTITION + "inflightbatchmessagecount")
    timeouts = Metric(_PARTITION + "acquisitionlocktimeout_total")
    for live in list(windows.all()):
        labels = (live.group_id, live.partition.topic.name, str(live.key[2]))
        in_flight.add(live.core.in_flight, *labels)
        locks.add(live.core.locks, *labels)
        held.add(live.core.tally[1], *labels)
        timeouts.add(live.lock_timeouts, *labels)
        yield None
    yield from (in_flight, locks, held, timeouts)
