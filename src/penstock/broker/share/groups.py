"""Puts together what serves share groups: sessions, windows, the share coordinator, dead letters, metrics, the view."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.broker.coordinator_metrics import shard_metrics
from penstock.broker.features import SHARE_VERSION
from penstock.broker.share.configs import ShareConfigs
from penstock.broker.share.coordinator import ShareCoordinator
from penstock.broker.share.dead_letters import DeadLetters
from penstock.broker.share.elsewhere import ShareStateElsewhere
from penstock.broker.share.letters_elsewhere import LettersElsewhere
from penstock.broker.share.log_ends import LogEnds
from penstock.broker.share.metrics import ShareMetrics
from penstock.broker.share.sessions import OpenShareSessions
from penstock.broker.share.view import ShareView
from penstock.broker.share.windows import ShareWindows
from penstock.broker.topics import Topic

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.config import BrokerConfig, Configs
    from penstock.broker.connection import Connection
    from penstock.broker.durability import Durability
    from penstock.broker.features import Features
    from penstock.broker.gate import Gate
    from penstock.broker.http import MonitoringEndpoint
    from penstock.broker.metrics import Metrics
    from penstock.broker.peers import Peers
    from penstock.broker.state_topic import MakeTopic
    from penstock.broker.topic_manager import TopicManager
    from penstock.broker.world import World


class ShareGroups:
    def __init__(
        self,
        cluster: ClusterView,
        topics: TopicManager,
        config: BrokerConfig,
        configs: Configs,
        durability: Durability,
        world: World,
        make_topic: MakeTopic,
        gate: Gate,
        peers: Callable[[], Peers],
    ) -> None:
        self.config = config
        self.metrics = ShareMetrics()
        self.settings = ShareConfigs(configs, config)
        self.log_ends = LogEnds(cluster, peers)
        letters = LettersElsewhere(self.log_ends, peers)
        self.dead_letters = DeadLetters(cluster, topics, durability, world, self.settings, config, gate, letters)
        self.windows = ShareWindows(cluster, world, self.settings, self.dead_letters, self.metrics)
        self.coordinator = ShareCoordinator(
            make_topic,
            cluster,
            world,
            config,
            self.metrics,
            self.windows.drop,
            self.windows.states_lost,
            ShareStateElsewhere(cluster, peers, world),
        )
        self.windows.coordinator = self.coordinator
        cluster.on_leadership_changed.append(self.windows.leadership_changed)
        self.sessions = OpenShareSessions(self.windows, self.metrics)
        self._view = ShareView(self.windows, self.settings, world)

    def start(self) -> None:
        self.settings.start()
        self.coordinator.start()

    def listen(
        self,
        on_connection_closed: list[Callable[[Connection], None]],
        on_topic_deleted: list[Callable[[Topic], None]],
        features: Features,
        metrics: Metrics,
        monitoring: MonitoringEndpoint,
    ) -> None:
        """Hear of what happens in the broker, and show what happens here."""
        on_connection_closed.append(self.sessions.connection_closed)
        on_topic_deleted.append(self._topic_deleted)
        on_topic_deleted.append(lambda topic: self.metrics.topic_deleted(topic.name))
        features.listeners.append(lambda: self._features_changed(features))
        metrics.register(
            lambda: self.metrics.collect(
                self.sessions, self.windows, self.dead_letters, partitions=self.config.penstock_metrics_partitions
            )
        )
        metrics.register(lambda: shard_metrics("share_coordinator", self.coordinator.runtime))
        monitoring.register("/share-groups", self._view.show, about_groups=True)

    def stop(self) -> None:
        """What members hold comes back while it can still be written: the next start finds it with its deliveries."""
        self.sessions.end_all()
        self.windows.close()
        self.coordinator.stop()

    def _features_changed(self, features: Features) -> None:
        """Where share groups are switched off, nobody can acknowledge: what members hold comes back."""
        if not features.level(SHARE_VERSION):
            self.sessions.end_all()

    def _topic_deleted(self, topic: Topic) -> None:
        self.windows.topic_deleted(topic)
        self.coordinator.topic_deleted(topic)
