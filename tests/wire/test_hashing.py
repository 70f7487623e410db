from __future__ import annotations

import pytest

from penstock.wire.hashing import coordinator_partition, java_string_hash, murmur2


@pytest.mark.parametrize(
    ("text", "expected", "partition"),
    [
        ("", 0, 0),
        ("a", 97, 47),
        ("test", 3556498, 48),
        ("my-group", -1906497762, 12),
        ("test-group", 627841412, 12),
        ("console-consumer-1", 35782224, 24),
        ("my-txn", -1061187895, 45),
        ("grüppe", -1233264812, 12),
        ("😀", 1772899, 49),
    ],
)
def test_java_string_hash_and_the_coordinator_of_fifty(text: str, expected: int, partition: int) -> None:
    assert java_string_hash(text) == expected
    assert coordinator_partition(text, 50) == partition


def test_the_one_hash_without_an_absolute_value_goes_to_partition_zero() -> None:
    text = "polygenelubricants"  # Java's hash of it is the smallest int32
    assert java_string_hash(text) == -(2**31)
    assert coordinator_partition(text, 50) == 0


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        # From the tests of Java's partitioner.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_that_of_javas_partitioner(data: bytes, expected: int) -> None:
    assert murmur2(data) == expected & 0xFFFFFFFF
