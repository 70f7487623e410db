"""The two hashes that clients and broker must agree on."""

from __future__ import annotations

from functools import lru_cache


def java_string_hash(text: str) -> int:
    """`String.hashCode` of Java, over UTF-16 units, as a signed 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


@lru_cache(maxsize=4096)
def coordinator_partition(name: str, partitions: int) -> int:
    """The partition of an internal topic that keeps the state of a group or transactional id."""
    value = java_string_hash(name)
    # Java's Utils.abs: the one number without a positive counterpart becomes zero.
    return (0 if value == -(1 << 31) else abs(value)) % partitions


def murmur2(data: bytes) -> int:
    """Murmur2 as Java's default partitioner computes it, as an unsigned 32-bit number (mask with 0x7FFFFFFF)."""
    length = len(data)
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ length
    whole = length & ~3
    for index in range(0, whole, 4):
        k = int.from_bytes(data[index : index + 4], "little") * m & mask
        k = (k ^ (k >> 24)) * m & mask
        h = (h * m & mask) ^ k
    if length != whole:
        h ^= int.from_bytes(data[whole:], "little")
        h = h * m & mask
    h = (h ^ (h >> 13)) * m & mask
    return h ^ (h >> 15)
