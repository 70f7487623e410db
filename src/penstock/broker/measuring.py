"""What a broker measures of itself as long as somebody may look: times, traffic, ages, lag, and where they are sent.

All of it is built together, and only if metrics are configured. Coordinators are not built for it: where there is none
yet, there are no groups to tell of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from penstock import __version__
from penstock.broker.arrivals import Arrivals, hosted_ends, span_range
from penstock.broker.group_history import GroupHistory
from penstock.broker.process_metrics import LoopLag, broker_info, process_metrics
from penstock.broker.request_times import RequestTimes
from penstock.broker.traffic import Traffic

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.config import BrokerConfig
    from penstock.broker.group_coordinator import GroupCoordinator
    from penstock.broker.http import MonitoringEndpoint
    from penstock.broker.lag_elsewhere import LagElsewhere
    from penstock.broker.lag_metrics import Want
    from penstock.broker.metrics import Metric, Metrics
    from penstock.broker.older_arrivals import OlderArrivals
    from penstock.broker.otlp_export import OtlpExport
    from penstock.broker.peers import Peers
    from penstock.broker.share.groups import ShareGroups
    from penstock.broker.topics import Topic
    from penstock.broker.world import World


class Coordinators(NamedTuple):
    groups: GroupCoordinator
    share_groups: ShareGroups


FindCoordinators = Callable[[], Coordinators | None]
"""The coordinators of groups, as soon as there is something for them to do."""


class Measuring:
    def __init__(
        self,
        config: BrokerConfig,
        cluster: ClusterView,
        world: World,
        metrics: Metrics,
        monitoring: MonitoringEndpoint,
        coordinators: FindCoordinators,
        peers: Callable[[], Peers],
        on_topic_deleted: list[Callable[[Topic], None]],
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._world = world
        self._metrics = metrics
        self._coordinators = coordinators
        self._peers = peers
        self.times = RequestTimes(world.precise, world.monotonic, lambda: config.penstock_request_slow_ms)
        self.traffic = Traffic(cluster)
        self._loop_lag = LoopLag(world)
        self._elsewhere: LagElsewhere | None = None
        if cluster.is_shared:
            from penstock.broker.lag_elsewhere import LagElsewhere

            self._elsewhere = LagElsewhere(cluster, coordinators, world)
        self._arrivals = Arrivals(cluster, world, self._ends)
        self._older: OlderArrivals | None = None
        self._history = GroupHistory(self._searched_lag, self._groups, world)
        self._otlp: OtlpExport | None = None
        on_topic_deleted += [self.traffic.topic_deleted, self._arrivals.topic_deleted, self._forget_older]
        monitoring.register("/groups/history", self._history.view, about_groups=True)
        for collector in (self.times.metrics, self.traffic.metrics, self._loop_lag.metrics, process_metrics, self.lag):
            metrics.register(collector)
        metrics.register(lambda: (broker_info(__version__, cluster.cluster_id, config.node_id),))
        if config.penstock_otlp_endpoint:
            from penstock.broker.otlp_export import OtlpExport

            self._otlp = OtlpExport(metrics, config, cluster.cluster_id, __version__, world)
            metrics.register(self._otlp.metrics)

    def start(self) -> None:
        self._loop_lag.start()
        self._arrivals.start()
        self._history.start()
        for part in (self._elsewhere, self._otlp):
            if part is not None:
                part.start()

    def stop(self) -> None:
        self._loop_lag.stop()
        self._arrivals.stop()
        self._history.stop()
        for part in (self._elsewhere, self._older, self._otlp):
            if part is not None:
                part.stop()

    def success_ages(self) -> dict[str, float]:
        ages = {} if self._otlp is None else self._otlp.success_ages()
        return ages if self._elsewhere is None else ages | self._elsewhere.success_ages()

    def note_arrivals(self) -> None:
        """Note how far each log has come now, not in a second."""
        self._arrivals.stop()
        self._arrivals.start()

    def lag(self) -> Iterator[Metric | None]:
        singles_max = self._metrics.series_max() if self._config.penstock_metrics_partitions else 0
        return self._lag(singles_max)

    def _searched_lag(self) -> Iterator[Metric | None]:
        """The lag, and whose age is not known from the notes is looked up."""
        if self._older is None:
            from penstock.broker.older_arrivals import OlderArrivals

            self._older = OlderArrivals(self._cluster, self._arrivals, self._peers, self._world)
        return self._lag(0, self._older.want)

    def _lag(self, singles_max: int, want: Want | None = None) -> Iterator[Metric | None]:
        found = self._coordinators()
        if found is None:
            return
        from penstock.broker.lag_metrics import Ends, LagReader

        yield from LagReader(
            self._cluster,
            found.groups,
            found.share_groups.coordinator,
            self._arrivals,
            Ends(self._world.precise, self._elsewhere),
            self._elsewhere,
            self._world.now_ms(),
            singles_max=singles_max,
            want=want,
        ).metrics()

    def _ends(self, topic: Topic, span: int) -> list[int]:
        if self._elsewhere is None:
            return hosted_ends(topic, span)
        return self._elsewhere.ends(topic, span_range(topic, span))

    def _groups(self) -> GroupCoordinator | None:
        found = self._coordinators()
        return None if found is None else found.groups

    def _forget_older(self, topic: Topic) -> None:
        if self._older is not None:
            self._older.topic_deleted(topic)
