"""Environment variables."""

from __future__ import annotations

from penstock.broker.config import from_environment


def test_variables_of_kafkas_images_are_understood_and_others_left_alone() -> None:
    environment = {
        "KAFKA_NUM_PARTITIONS": "3",
        "KAFKA_LOG_RETENTION_MS": "5",
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "NUM_PARTITIONS": "9",
        "KAFKA_PENSTOCK_ACKS_ALL_FLUSH": "false",
    }
    assert from_environment(environment) == {
        "num.partitions": "3",
        "log.retention.ms": "5",
        "penstock.acks.all.flush": "false",
    }


def test_the_prefix_of_bitnami_s_image_is_understood_and_yields_to_the_shorter_name() -> None:
    assert from_environment({"KAFKA_CFG_NUM_PARTITIONS": "3"}) == {"num.partitions": "3"}
    both = {"KAFKA_NUM_PARTITIONS": "5", "KAFKA_CFG_NUM_PARTITIONS": "3"}
    assert from_environment(both) == from_environment(dict(reversed(both.items()))) == {"num.partitions": "5"}
