"""What clients push: subscriptions that match, intervals, and a bound for everything."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, cast

import pytest

from penstock.broker import telemetry as module
from penstock.broker.config.client_metrics import DEFAULT_SUBSCRIPTION
from penstock.broker.connection import Connection
from penstock.broker.parts import Parts
from penstock.broker.telemetry import Client, Telemetry
from penstock.catalog.contract import replaced_by
from penstock.records.codecs import Codec, compress
from penstock.security.principals import ANONYMOUS
from penstock.wire.errors import (
    InvalidRecord,
    InvalidRequest,
    TelemetryTooLarge,
    ThrottlingQuotaExceeded,
    UnknownSubscriptionId,
    UnsupportedCompressionType,
)
from penstock.wire.otlp import Point, encode_metrics
from tests.broker.memory_parts import MemoryFoundation

LATENCY = "org.apache.kafka.consumer.fetch.manager.fetch.latency.avg"
LAST_POLL = "org.apache.kafka.consumer.last.poll.seconds.ago"
NEW = bytes(16)
ID = b"0123456789abcdef"


class Socket:
    """What telemetry knows of a connection."""

    def __init__(self, host: str = "10.0.0.1", port: int = 5000) -> None:
        self.peer_host, self.peer_port = host, port
        self.software = ("apache-kafka-java", "4.3.1")
        self.principal = ANONYMOUS
        self.client_id = "c"
        self.listener_name = "PLAINTEXT"
        self.last_active = 0.0


class Stage:
    def __init__(self, configs: Mapping[str, str] | None = None) -> None:
        self.foundation = MemoryFoundation()
        self.world = self.foundation.world
        self.parts: Parts = self.foundation.parts({"penstock.metrics.listen": "127.0.0.1:0", **(configs or {})})
        self.telemetry: Telemetry = self.parts.telemetry
        self.socket = Socket()
        self.world.pass_ms(1_000_000)
        self.world.new_id()  # the first one is all zeros

    def wait(self, ms: int) -> None:
        self.world.pass_ms(ms)

    def set(self, name: str, **configs: str) -> None:
        self.parts.configs.change_client_metrics(
            name, replaced_by({key.replace("_", "."): value for key, value in configs.items()})
        )

    def subscribe(self, instance: bytes = ID, client_id: str = "c", socket: Socket | None = None) -> Client:
        return self.telemetry.subscribe(instance, client_id, cast(Connection, socket or self.socket))

    def push(
        self,
        *points: Point,
        data: bytes | None = None,
        instance: bytes = ID,
        subscription: int | None = None,
        codec: int = 0,
        is_terminating: bool = False,
    ) -> None:
        client = self.telemetry._clients.get(instance)
        if subscription is None:
            subscription = 0 if client is None else client.subscription_id
        self.telemetry.push(
            instance,
            "c",
            cast(Connection, self.socket),
            subscription,
            codec,
            encode_metrics(points, (), 1, 2) if data is None else data,
            is_terminating=is_terminating,
        )

    def shown(self, name: str) -> dict[tuple[str, ...], float]:
        for metric in self.telemetry.metrics():
            if metric is not None and metric.name == name:
                return dict(metric.samples)
        raise AssertionError(name)


@pytest.fixture
def stage() -> Stage:
    return Stage()


class TestSubscriptions:
    def test_a_new_client_is_given_an_id_and_the_default_subscription(self, stage: Stage) -> None:
        client = stage.subscribe(NEW)
        assert any(client.instance_id)
        assert client.interval_ms == 60_000
        assert "org.apache.kafka.consumer." in client.subscribed

    def test_without_an_endpoint_nobody_is_asked_for_anything(self) -> None:
        stage = Stage({"penstock.metrics.listen": ""})
        client = stage.subscribe()
        assert (client.subscribed, client.interval_ms) == ((), 300_000)
        assert stage.parts.configs.client_metrics_names() == []

    def test_the_default_subscription_can_be_removed_for_good_and_brought_back(self, stage: Stage) -> None:
        stage.set(DEFAULT_SUBSCRIPTION)
        assert stage.subscribe().subscribed == ()
        again = stage.foundation.parts({"penstock.metrics.listen": "127.0.0.1:0"})
        assert again.configs.client_metrics_names() == []
        again.configs.change_client_metrics(DEFAULT_SUBSCRIPTION, replaced_by({"metrics": "*"}))
        assert again.configs.client_metrics_overrides(DEFAULT_SUBSCRIPTION) == {"metrics": "*"}

    def test_subscriptions_that_match_are_united_with_the_shortest_interval(self, stage: Stage) -> None:
        stage.set(DEFAULT_SUBSCRIPTION)
        stage.set("a", metrics="x.,y.", interval_ms="5000", match="client_id=c.*,client_source_address=10\\..*")
        stage.set("b", metrics="y.,z.", interval_ms="1000", match="client_software_name=apache-kafka-java")
        stage.set("c", metrics="never.", match="client_id=other")
        client = stage.subscribe(client_id="client-1")
        assert (set(client.subscribed), client.interval_ms) == ({"x.", "y.", "z."}, 1000)
        assert stage.subscribe(b"f" * 16, "d").subscribed == ("y.", "z.")

    def test_all_metrics_swallow_single_ones(self, stage: Stage) -> None:
        stage.set("a", metrics="*")
        assert stage.subscribe().subscribed == ("*",)

    def test_an_interval_beyond_five_minutes_is_shortened_as_in_kafka(self, stage: Stage) -> None:
        stage.set(DEFAULT_SUBSCRIPTION)
        stage.set("a", metrics="x.", interval_ms="3600000")
        assert stage.subscribe().interval_ms == 300_000

    def test_a_changed_subscription_has_another_id_and_may_be_requested_at_once(self, stage: Stage) -> None:
        before = stage.subscribe().subscription_id
        stage.push(Point(LATENCY, 1.0))
        stage.set("a", metrics="*")
        with pytest.raises(UnknownSubscriptionId):
            stage.push(Point(LATENCY, 1.0), subscription=before)
        assert stage.subscribe().subscription_id != before


class TestIntervals:
    def test_a_second_request_before_the_interval_is_over_is_throttled(self, stage: Stage) -> None:
        stage.subscribe()
        with pytest.raises(ThrottlingQuotaExceeded):
            stage.subscribe()
        stage.wait(60_000)
        stage.subscribe()

    def test_an_interval_does_not_grow_when_the_clock_is_set_back(self, stage: Stage) -> None:
        stage.subscribe()
        stage.world.clock_ahead_ms = -3_600_000
        stage.wait(60_000)
        stage.subscribe()

    def test_a_push_may_follow_a_request_at_once_and_the_next_one_after_the_interval(self, stage: Stage) -> None:
        stage.subscribe()
        stage.push(Point(LATENCY, 1.0))
        with pytest.raises(ThrottlingQuotaExceeded):
            stage.push(Point(LATENCY, 1.0))
        stage.wait(60_000)
        stage.push(Point(LATENCY, 2.0))

    def test_the_last_push_comes_at_any_time_and_is_the_last(self, stage: Stage) -> None:
        stage.subscribe()
        stage.push(Point(LATENCY, 1.0))
        stage.push(Point(LATENCY, 2.0), is_terminating=True)
        stage.wait(60_000)
        with pytest.raises(InvalidRequest):
            stage.push(Point(LATENCY, 3.0))

    def test_a_push_without_an_id_of_its_own_is_refused(self, stage: Stage) -> None:
        for reserved in (NEW, NEW[:15] + b"\x01"):
            with pytest.raises(InvalidRequest):
                stage.push(instance=reserved)


class TestBounds:
    def test_what_is_too_large_as_sent_is_refused(self) -> None:
        stage = Stage({"telemetry.max.bytes": "100"})
        stage.subscribe()
        with pytest.raises(TelemetryTooLarge):
            stage.push(data=bytes(101))

    @pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
    def test_what_is_too_large_unpacked_is_refused_in_every_codec(self, stage: Stage, codec: Codec) -> None:
        bomb = compress(codec, bytes(8 << 20))
        assert len(bomb) < 1 << 20
        stage.subscribe()
        with pytest.raises(TelemetryTooLarge):
            stage.push(data=bomb, codec=codec)
        stage.wait(60_000)
        stage.push(Point(LATENCY, 1.0))

    @pytest.mark.parametrize("codec", Codec)
    def test_every_codec_is_read(self, stage: Stage, codec: Codec) -> None:
        stage.subscribe()
        stage.push(data=compress(codec, encode_metrics([Point(LATENCY, 1.5)], (), 1, 2)), codec=codec)
        assert list(stage.shown("penstock_client_metric").values()) == [1.5]

    def test_another_codec_is_refused(self, stage: Stage) -> None:
        stage.subscribe()
        with pytest.raises(UnsupportedCompressionType):
            stage.push(data=b"x", codec=9)

    @pytest.mark.parametrize(("codec", "data"), [(0, b"\x0a\x05x"), (1, zlib.compress(b"no gzip")), (4, b"no zstd")])
    def test_what_cannot_be_read_is_refused(self, stage: Stage, codec: int, data: bytes) -> None:
        stage.subscribe()
        with pytest.raises(InvalidRecord):
            stage.push(data=data, codec=codec)

    def test_no_more_values_are_kept_than_a_client_may_have(self, stage: Stage) -> None:
        stage.subscribe()
        stage.push(*(Point(f"m{each}", 1.0) for each in range(module.VALUES_PER_CLIENT_MAX + 1)))
        assert len(stage.shown("penstock_client_metric")) == module.VALUES_PER_CLIENT_MAX
        assert stage.shown("penstock_client_metrics_dropped_total") == {(): 1}

    def test_counters_under_ever_new_names_replace_each_other(self, stage: Stage) -> None:
        stage.subscribe()
        for turn in range(5):
            stage.push(*(Point(f"m{turn}.{each}", 1.0, is_delta=True, is_sum=True) for each in range(200)))
            stage.wait(60_000)
        client = stage.telemetry._clients[ID]
        assert len(client.values) <= module.VALUES_PER_CLIENT_MAX
        assert len(client.totals) <= module.VALUES_PER_CLIENT_MAX

    def test_all_clients_together_have_a_bound_too(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "VALUES_MAX", 5)
        for instance in (ID, b"f" * 16):
            stage.subscribe(instance)
            stage.push(*(Point(f"m{each}", 1.0) for each in range(4)), instance=instance)
        assert len(stage.shown("penstock_client_metric")) == 5
        stage.wait(60_000)
        stage.push(Point("m", 1.0))  # room for others
        stage.push(*(Point(f"m{each}", 1.0) for each in range(4)), instance=b"f" * 16)
        assert len(stage.shown("penstock_client_metric")) == 5

    def test_long_names_and_attributes_are_left_out(self, stage: Stage) -> None:
        stage.subscribe()
        stage.push(Point("n" * 201, 1.0), Point("m", 1.0, (("k", "v" * 200),)), Point("ok", 1.0))
        assert [labels[2] for labels in stage.shown("penstock_client_metric")] == ["ok"]

    def test_the_client_that_was_silent_for_longest_makes_room(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "CLIENTS_MAX", 3)
        for each in range(1, 4):
            stage.subscribe(bytes([each]) * 16)
        stage.push(Point("m", 1.0), instance=b"\x01" * 16)
        stage.subscribe(b"\x04" * 16)
        assert set(stage.telemetry._clients) == {bytes([each]) * 16 for each in (1, 3, 4)}
        assert sum(map(len, stage.telemetry._of_connection.values())) == 3


class TestWhatIsShown:
    def test_a_client_is_shown_with_where_it_is_and_what_it_runs(self, stage: Stage) -> None:
        stage.subscribe()
        stage.push(Point(LATENCY, 2.5, (("node.id", "1"),)), Point(LAST_POLL, 3.0))
        name = stage.telemetry._clients[ID].id_text
        stage.wait(2_000)
        assert stage.shown("penstock_client_info") == {
            (name, "c", "10.0.0.1", "apache-kafka-java", "4.3.1", "User:ANONYMOUS"): 1
        }
        assert stage.shown("penstock_client_metric")[name, "c", LATENCY, "node.id=1"] == 2.5
        assert stage.shown("penstock_client_push_age_seconds") == {(name, "c"): 2.0}
        assert stage.shown("penstock_client_last_poll_age_seconds") == {(name, "c"): 5.0}

    def test_a_consumer_that_never_polled_has_no_last_poll(self, stage: Stage) -> None:
        stage.subscribe()
        stage.push(Point(LAST_POLL, -1.0))
        assert stage.shown("penstock_client_last_poll_age_seconds") == {}

    def test_increments_are_added_up_and_totals_replaced(self, stage: Stage) -> None:
        stage.subscribe()
        for _ in range(2):
            stage.push(Point("delta", 2.0, is_delta=True, is_sum=True), Point("total", 5.0, is_sum=True))
            stage.wait(60_000)
        stage.push(Point("other", 1.0))
        shown = {labels[2]: value for labels, value in stage.shown("penstock_client_metric").items()}
        assert shown == {"delta": 4.0, "other": 1.0}

    def test_a_client_that_leaves_is_forgotten(self, stage: Stage) -> None:
        stage.subscribe()
        stage.push(Point(LATENCY, 1.0))
        stage.telemetry.connection_closed(cast(Connection, stage.socket))
        assert stage.shown("penstock_client_info") == {}
        assert stage.telemetry._kept_values == 0

    def test_a_client_that_missed_three_intervals_is_forgotten(self, stage: Stage) -> None:
        stage.subscribe()
        stage.push(Point(LATENCY, 1.0))
        stage.wait(180_000)
        assert stage.shown("penstock_client_info") == {}
        assert stage.telemetry._of_connection == {}

    def test_refusals_are_counted_by_error(self, stage: Stage) -> None:
        stage.subscribe()
        with pytest.raises(ThrottlingQuotaExceeded):
            stage.subscribe()
        assert stage.shown("penstock_client_metrics_refused_total") == {("THROTTLING_QUOTA_EXCEEDED",): 1}

    def test_of_a_latency_that_a_client_reports_for_each_broker_the_largest_is_shown(self, stage: Stage) -> None:
        """As librdkafka and the Java client do of the time that requests take."""
        name = "org.apache.kafka.producer.node.request.latency.avg"
        stage.subscribe()
        values = {"1": 2.5, "2": 9.0, "3": float("nan"), "4": 1.0}
        stage.push(*(Point(name, value, (("node_id", node),)) for node, value in values.items()))
        view = cast("dict[str, Any]", stage.telemetry.view({}))
        assert view["clients"][0]["latenciesMs"] == {name: 9.0}

    def test_the_view_lists_clients_and_shows_one_with_all_its_values(self, stage: Stage) -> None:
        stage.subscribe()
        stage.push(Point(LATENCY, 2.5), Point(LAST_POLL, 0.0))
        view = cast("dict[str, Any]", stage.telemetry.view({}))
        (client,) = view["clients"]
        assert (client["clientId"], client["host"], client["version"]) == ("c", "10.0.0.1", "4.3.1")
        assert client["latenciesMs"] == {LATENCY: 2.5}
        assert view["clientCount"] == 1
        one = cast("dict[str, Any]", stage.telemetry.view({"client": client["clientInstanceId"]}))
        assert {"metric": LATENCY, "attributes": {}, "value": 2.5} in one["metrics"]
        with pytest.raises(LookupError):
            stage.telemetry.view({"client": "nobody"})
