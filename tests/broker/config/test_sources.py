"""Properties files and environment variables."""

from __future__ import annotations

from penstock.broker.config import from_environment, read_properties

FILE = r"""
# a comment
! another
node.id=1
  log.dirs = /data/a b
num.partitions: 3
message.max.bytes 100
empty=
alone
listeners=PLAINTEXT://:9092,\
          SSL://:9093
escaped\=name=tab\tback\\slash \u00e9
"""


def test_a_properties_file_is_read_as_java_reads_it() -> None:
    assert read_properties(FILE) == {
        "node.id": "1",
        "log.dirs": "/data/a b",
        "num.partitions": "3",
        "message.max.bytes": "100",
        "empty": "",
        "alone": "",
        "listeners": "PLAINTEXT://:9092,SSL://:9093",
        "escaped=name": "tab\tback\\slash é",
    }


def test_a_file_may_end_in_a_continued_line() -> None:
    assert read_properties("a=b\\") == {"a": "b"}
    assert read_properties("") == {}


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
