"""Share-group metrics under Kafka's names (KIP-932, KIP-1191), for the broker's Prometheus text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from penstock.broker.metrics import Metric
from penstock.queues.transitions import AcknowledgeType

if TYPE_CHECKING:
    from penstock.broker.share.dead_letters import DeadLetters
    from penstock.broker.share.sessions import OpenShareSessions
    from penstock.broker.share.windows import ShareWindows

_GROUP = "kafka_server_sharegroupmetrics_"
_PARTITION = "kafka_server_sharepartitionmetrics_"
_SESSIONS = "kafka_server_sharesessioncache_"
_TOPICS = "kafka_server_brokertopicmetrics_"
_COORDINATOR = "kafka_server_share_coordinator_metrics_"


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
        self._loads = 0
        self._load_ms = 0

    def acknowledged(self, counts: Mapping[AcknowledgeType, int]) -> None:
        self._acknowledgements.update(counts)

    def partition_loaded(self, took_ms: int) -> None:
        self._loads += 1
        self._load_ms += took_ms

    def collect(self, sessions: OpenShareSessions, windows: ShareWindows, letters: DeadLetters) -> Iterator[Metric]:
        acknowledgements = Metric(
            _GROUP + "recordacknowledgements_total", "counter", "Records that consumers answered for, by answer."
        )
        for kind in (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT, AcknowledgeType.RENEW):
            acknowledgements.add(self._acknowledgements[kind], ackType=kind.name.title())
        yield acknowledgements
        yield Metric(_GROUP + "partitionloadtimems_count", "counter", "Windows loaded.").add(self._loads)
        yield Metric(_GROUP + "partitionloadtimems_sum", "counter", "Time to load them, in ms.").add(self._load_ms)
        yield from _dead_letters(letters)
        unreadable = Metric(
            "penstock_share_unreadable_records_total", "counter", "Records archived because their batch is unreadable."
        )
        for group_id, count in self.unreadable.items():
            unreadable.add(count, group=group_id)
        yield unreadable
        yield from _partitions(windows)
        yield Metric(_SESSIONS + "sharesessionscount", "gauge", "Open share sessions.").add(len(sessions))
        yield Metric(_SESSIONS + "sharepartitionscount", "gauge", "Partitions in open share sessions.").add(
            sessions.partitions()
        )
        yield Metric(
            _SESSIONS + "sharesessionevictions_total", "counter", "Share sessions that ended with their connection."
        ).add(self.session_evictions)
        for name, value in (
            ("totalsharefetchrequests_total", self.fetches),
            ("failedsharefetchrequests_total", self.failed_fetches),
            ("totalshareacknowledgementrequests_total", self.acknowledges),
            ("failedshareacknowledgementrequests_total", self.failed_acknowledges),
        ):
            yield Metric(_TOPICS + name, "counter", "Share requests.").add(value)
        yield Metric("kafka_server_delayedoperationpurgatory_numdelayedoperations", "gauge", "Requests that wait.").add(
            len(sessions.parked), delayedOperation="ShareFetch"
        )
        yield Metric(
            "kafka_server_delayedsharefetchmetrics_expires_total", "counter", "Share fetches whose time was up."
        ).add(self.expired_waits)
        yield Metric(_COORDINATOR + "write_total", "counter", "Writes to the share coordinator.").add(self.state_writes)


def _dead_letters(letters: DeadLetters) -> Iterator[Metric]:
    for name, counts in (
        ("deadletterqueuerecordcount", letters.records),
        ("deadletterqueuetotalproducerequests_total", letters.requests),
        ("deadletterqueuefailedproducerequests_total", letters.failures),
    ):
        metric = Metric(_GROUP + name, "counter", "Dead letters.")
        for group_id, count in counts.items():
            metric.add(count, group=group_id)
        yield metric


def _partitions(windows: ShareWindows) -> Iterator[Metric]:
    in_flight = Metric(_PARTITION + "inflightmessagecount", "gauge", "Offsets from the start to the last acquired.")
    locks = Metric(_PARTITION + "inflightbatchcount", "gauge", "Acquisitions that hold records.")
    held = Metric(_PARTITION + "inflightbatchmessagecount", "gauge", "Records held by consumers.")
    timeouts = Metric(_PARTITION + "acquisitionlocktimeout_total", "counter", "Records whose lock ran out.")
    for live in windows.all():
        labels = {
            "group": live.group_id,
            "topic": live.partition.topic.name,
            "partition": str(live.key[2]),
        }
        in_flight.add(live.core.in_flight, **labels)
        locks.add(live.core.locks, **labels)
        held.add(sum(live.core.held_by_member().values()), **labels)
        timeouts.add(live.lock_timeouts, **labels)
    yield from (in_flight, locks, held, timeouts)
