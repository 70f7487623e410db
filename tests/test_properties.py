"""Java's properties files."""

from __future__ import annotations

from penstock.properties import read_properties

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
