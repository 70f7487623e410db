"""An unknown config is named together with the one that was probably meant."""

from __future__ import annotations

import pytest

from penstock.broker.config import describe_unknown


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("log.retention.hour", "log.retention.hours"),
        ("num.partition", "num.partitions"),
        ("auto.create.topic.enable", "auto.create.topics.enable"),
        ("penstock.acks.all.flsh", "penstock.acks.all.flush"),
        ("Num.Partitions", "num.partitions"),
        ("num_partitions", "num.partitions"),
        ("retention.ms", "log.retention.ms"),
        ("segment.bytes", "log.segment.bytes"),
    ],
)
def test_the_nearest_known_name_is_suggested(name: str, meant: str) -> None:
    assert describe_unknown(name) == f"{name} is not a config of Penstock or Kafka; did you mean {meant}?"


def test_nothing_is_suggested_for_a_name_that_is_like_no_other() -> None:
    assert describe_unknown("confluent.license") == "confluent.license is not a config of Penstock or Kafka"
