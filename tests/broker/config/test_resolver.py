"""Which setting counts, and what DescribeConfigs shows of it.

The expected entries are what a running Apache Kafka 4.3.1 answered with the same settings.
"""

from __future__ import annotations

import pytest

from penstock.broker.config import BrokerConfig, ConfigError, Entry, GroupConfigs, TopicConfigs
from penstock.broker.config.resolver import check_dynamic


def _shown(entries: list[Entry], name: str) -> tuple[str | None, int, list[tuple[str, str | None, int]]]:
    entry = next(entry for entry in entries if entry.name == name)
    return entry.value, int(entry.source), [(each.name, each.value, int(each.source)) for each in entry.synonyms]


class TestTheBrokersConfigs:
    def test_have_kafkas_defaults(self) -> None:
        config = BrokerConfig()
        assert config.num_partitions == 1
        assert config.auto_create_topics_enable is True
        assert config.log_cleaner_min_cleanable_ratio == 0.5
        assert config.group_consumer_assignors == ["uniform", "range"]
        assert config.advertised_listeners == []
        assert config.log_retention_ms is None
        assert config.penstock_acks_all_flush is True

    def test_node_id_and_broker_id_stand_for_each_other(self) -> None:
        assert BrokerConfig().node_id == 1
        assert BrokerConfig({"node.id": "7"}).broker_id == 7
        assert BrokerConfig({"broker.id": "8"}).node_id == 8

    def test_without_use_or_unknown_are_accepted_and_listed(self) -> None:
        for_one_listener = "listener.name.internal.num.network.threads"
        config = BrokerConfig({"num.io.threads": "4", "my.own": "thing", "num.partitions": "3", for_one_listener: "5"})
        assert config.unused == [for_one_listener, "num.io.threads"]
        assert config.unknown == ["my.own"]
        assert _shown(config.entries(), "my.own") == (None, 4, [("my.own", None, 4)])
        assert config.entries(["my.own"])[0].is_sensitive

    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            ("num.partitions", "0", "Invalid value 0 for configuration num.partitions: Value must be at least 1"),
            ("num.io.threads", "many", "Invalid value many for configuration num.io.threads: Not a number of type INT"),
            ("penstock.acks.all.flush", "x", "Expected value to be either true or false"),
            ("penstock.acks.flush", "true", "Penstock has no config penstock.acks.flush; its own are penstock."),
        ],
    )
    def test_that_are_malformed_are_refused(self, name: str, value: str, message: str) -> None:
        with pytest.raises(ConfigError) as raised:
            BrokerConfig({name: value})
        assert message in str(raised.value)

    def test_set_at_run_time_count_before_the_file(self) -> None:
        config = BrokerConfig({"message.max.bytes": "100"})
        config.set_dynamic({"message.max.bytes": "200", "log.cleaner.backoff.ms": "2"}, {"message.max.bytes": "300"})
        assert config.message_max_bytes == 300
        assert config.log_cleaner_backoff_ms == 2
        assert _shown(config.entries(), "message.max.bytes") == (
            "300",
            2,
            [
                ("message.max.bytes", "300", 2),
                ("message.max.bytes", "200", 3),
                ("message.max.bytes", "100", 4),
                ("message.max.bytes", "1048588", 5),
            ],
        )
        config.set_dynamic({}, {})
        assert config.message_max_bytes == 100

    def test_for_all_brokers_are_described_alone(self) -> None:
        config = BrokerConfig({"message.max.bytes": "100"})
        config.set_dynamic({"message.max.bytes": "200"}, {"message.max.bytes": "300"})
        assert [entry.name for entry in config.cluster_entries()] == ["message.max.bytes"]
        assert _shown(config.cluster_entries(), "message.max.bytes") == ("200", 3, [("message.max.bytes", "200", 3)])

    def test_of_passwords_are_never_shown(self) -> None:
        config = BrokerConfig({"delegation.token.secret.key": "hunter2"})
        entry = config.entries(["delegation.token.secret.key"])[0]
        assert (entry.value, entry.is_sensitive, entry.synonyms[0].value) == (None, True, None)
        assert "hunter2" not in repr(config.entries())

    def test_that_are_internal_are_shown_only_when_set(self) -> None:
        name = "producer.id.expiration.check.interval.ms"
        assert BrokerConfig().entries([name]) == []
        assert BrokerConfig({name: "5"}).entries([name])[0].value == "5"

    def test_say_whether_they_can_be_changed_at_run_time(self) -> None:
        entries = {entry.name: entry.read_only for entry in BrokerConfig().entries()}
        assert entries["num.partitions"]
        assert not entries["message.max.bytes"]


class TestChangesAtRunTime:
    def test_are_taken_for_what_is_dynamic_or_unknown(self) -> None:
        check_dynamic({"log.retention.ms": "-7", "foo.bar": "x"}, for_all_brokers=True)
        check_dynamic({"ssl.client.auth": "none"}, for_all_brokers=False)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"num.partitions": "3"}, "Cannot update these configs dynamically: [num.partitions]"),
            (
                {"log.retention.ms": "abc"},
                "Invalid value abc for configuration log.retention.ms: Not a number of type LONG",
            ),
            (
                {"message.max.bytes": "-1"},
                "Invalid value -1 for configuration message.max.bytes: Value must be at least 0",
            ),
            (
                {"listeners": "x"},
                "Cannot update these configs at default cluster level, broker id must be specified: [listeners]",
            ),
            (
                {"ssl.truststore.type": "PEM"},
                "These security configs can be dynamically updated only per-listener using the listener prefix: "
                "[ssl.truststore.type]",
            ),
        ],
    )
    def test_are_refused_in_kafkas_words(self, changes: dict[str, str], message: str) -> None:
        with pytest.raises(ConfigError) as raised:
            check_dynamic(changes, for_all_brokers=True)
        assert str(raised.value) == message


class TestATopicsConfigs:
    def test_have_kafkas_defaults(self) -> None:
        values = TopicConfigs(BrokerConfig()).resolve({})
        assert values["retention.ms"] == 604_800_000
        assert values["segment.bytes"] == 1 << 30
        assert values["cleanup.policy"] == "delete"
        assert values["min.cleanable.dirty.ratio"] == 0.5
        assert values["preallocate"] is False
        assert "internal.segment.bytes" not in values

    def test_are_the_topics_own_before_the_brokers(self) -> None:
        topics = TopicConfigs(BrokerConfig({"log.cleanup.policy": "compact", "message.max.bytes": "5"}))
        values = topics.resolve({"cleanup.policy": "delete, compact", "internal.segment.bytes": "99"})
        assert values["cleanup.policy"] == "delete,compact"
        assert values["max.message.bytes"] == 5
        assert values["internal.segment.bytes"] == 99

    @pytest.mark.parametrize(
        ("static", "retention_ms"),
        [
            ({"log.retention.hours": "2"}, 7_200_000),
            ({"log.retention.hours": "2", "log.retention.minutes": "7"}, 420_000),
            ({"log.retention.hours": "2", "log.retention.minutes": "7", "log.retention.ms": "9"}, 9),
            ({"log.retention.hours": "-1"}, -1),
        ],
    )
    def test_take_the_finest_unit_that_the_broker_has_set(self, static: dict[str, str], retention_ms: int) -> None:
        assert TopicConfigs(BrokerConfig(static)).resolve({})["retention.ms"] == retention_ms

    def test_take_a_coarser_unit_that_was_set_at_run_time_before_a_finer_one_of_the_file(self) -> None:
        config = BrokerConfig({"log.retention.ms": "5"})
        topics = TopicConfigs(config)
        config.set_dynamic({}, {"log.retention.minutes": "1"})
        topics.refresh()
        assert topics.resolve({})["retention.ms"] == 60_000

    def test_are_shown_with_all_settings_behind_them(self) -> None:
        config = BrokerConfig({"log.segment.bytes": "2000000"})
        config.set_dynamic({}, {"message.max.bytes": "3000000"})
        entries = TopicConfigs(config).entries({"segment.bytes": " 3000000"})
        assert _shown(entries, "segment.bytes") == (
            "3000000",
            1,
            [
                ("segment.bytes", "3000000", 1),
                ("log.segment.bytes", "2000000", 4),
                ("log.segment.bytes", "1073741824", 5),
            ],
        )
        assert _shown(entries, "max.message.bytes") == (
            "3000000",
            2,
            [("message.max.bytes", "3000000", 2), ("message.max.bytes", "1048588", 5)],
        )
        assert _shown(entries, "flush.ms") == ("9223372036854775807", 5, [])

    def test_that_come_from_a_coarser_unit_show_no_source_as_in_kafka(self) -> None:
        entries = TopicConfigs(BrokerConfig({"log.retention.hours": "24"})).entries({})
        assert _shown(entries, "retention.ms") == ("86400000", 5, [])
        entries = TopicConfigs(BrokerConfig({"log.retention.ms": "3", "log.retention.hours": "24"})).entries({})
        assert _shown(entries, "retention.ms") == (
            "3",
            4,
            [("log.retention.ms", "3", 4), ("log.retention.hours", "24", 4), ("log.retention.hours", "168", 5)],
        )

    def test_can_be_asked_for_by_name(self) -> None:
        topics = TopicConfigs(BrokerConfig())
        assert [entry.name for entry in topics.entries({}, ["retention.ms", "nope"])] == ["retention.ms"]
        assert len(topics.entries({}, [])) == len(topics.entries({})) == 33

    @pytest.mark.parametrize(
        ("overrides", "message"),
        [
            ({"nope": "1"}, "Unknown topic config name: nope"),
            ({"retention.ms": "-5"}, "Invalid value -5 for configuration retention.ms: Value must be at least -1"),
            (
                {"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "50"},
                "conflict topic config setting min.compaction.lag.ms (100) > max.compaction.lag.ms (50)",
            ),
            (
                {"remote.storage.enable": "true"},
                "Tiered Storage functionality is disabled in the broker. "
                "Topic cannot be configured with remote log storage.",
            ),
        ],
    )
    def test_that_cannot_be_are_refused_in_kafkas_words(self, overrides: dict[str, str], message: str) -> None:
        with pytest.raises(ConfigError) as raised:
            TopicConfigs(BrokerConfig()).check(overrides)
        assert str(raised.value) == message

    def test_that_can_be_pass(self) -> None:
        TopicConfigs(BrokerConfig()).check({"retention.ms": "5", "cleanup.policy": "", "compression.type": "zstd"})


class TestAGroupsConfigs:
    def test_fall_back_on_the_brokers(self) -> None:
        groups = GroupConfigs(BrokerConfig({"group.share.session.timeout.ms": "50000"}))
        values = groups.resolve({"share.record.lock.duration.ms": "20000"})
        assert values["share.session.timeout.ms"] == 50_000
        assert values["share.record.lock.duration.ms"] == 20_000
        assert values["share.auto.offset.reset"] == "latest"
        assert values["share.renew.acknowledge.enable"] is True

    def test_are_shown_with_all_settings_behind_them(self) -> None:
        groups = GroupConfigs(BrokerConfig({"group.share.session.timeout.ms": "50000"}))
        entries = groups.entries({"share.session.timeout.ms": "46000", "share.isolation.level": "read_committed"})
        assert _shown(entries, "share.session.timeout.ms") == (
            "46000",
            8,
            [
                ("share.session.timeout.ms", "46000", 8),
                ("group.share.session.timeout.ms", "50000", 4),
                ("group.share.session.timeout.ms", "45000", 5),
            ],
        )
        assert _shown(entries, "share.isolation.level") == (
            "read_committed",
            8,
            [("share.isolation.level", "read_committed", 8), ("share.isolation.level", "read_uncommitted", 5)],
        )
        assert len(entries) == 17

    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            ("nope", "x", "Unknown group config name: nope"),
            (
                "consumer.session.timeout.ms",
                "1",
                "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
            ),
            (
                "share.delivery.count.limit",
                "11",
                "share.delivery.count.limit must be less than or equal to group.share.max.delivery.count.limit",
            ),
            (
                "share.delivery.count.limit",
                "1",
                "Invalid value 1 for configuration share.delivery.count.limit: Value must be at least 2",
            ),
            (
                "share.record.lock.duration.ms",
                "600000",
                "share.record.lock.duration.ms must be less than or equal to group.share.max.record.lock.duration.ms",
            ),
        ],
    )
    def test_that_cannot_be_are_refused_in_kafkas_words(self, name: str, value: str, message: str) -> None:
        with pytest.raises(ConfigError) as raised:
            GroupConfigs(BrokerConfig()).check({name: value})
        assert str(raised.value) == message

    def test_a_session_outlasts_a_heartbeat(self) -> None:
        config = BrokerConfig({"group.consumer.min.session.timeout.ms": "1000"})
        with pytest.raises(ConfigError, match=r"must be greater than consumer\.heartbeat\.interval\.ms"):
            GroupConfigs(config).check({"consumer.session.timeout.ms": "5000"})
