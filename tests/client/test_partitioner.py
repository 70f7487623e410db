from __future__ import annotations

import pytest

from penstock.client.partitioner import other_partition, partition_for_key


@pytest.mark.parametrize(
    ("key", "murmur2"),
    # Kafka's own test vectors (Utils.murmur2), as signed numbers.
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_keys_go_where_java_sends_them(key: bytes, murmur2: int) -> None:
    assert partition_for_key(key, 7) == (murmur2 & 0x7FFFFFFF) % 7


def test_a_record_without_key_changes_its_partition_whenever_there_is_another() -> None:
    assert all(other_partition(2, 3) != 2 for _ in range(100))
    assert {other_partition(0, 3) for _ in range(200)} == {1, 2}
    assert other_partition(0, 1) == 0
    assert {other_partition(-1, 2) for _ in range(100)} == {0, 1}
