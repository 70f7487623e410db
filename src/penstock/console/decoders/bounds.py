"""What every decoder of records is held to: a budget of items, a depth, and one way to give up."""

from __future__ import annotations

MAX_ITEMS = 20_000
MAX_DEPTH = 64


class Unreadable(Exception):
    """The bytes are not what they were taken for; the text says why."""


class Budget:
    """How much of one key or value may still be read: items, and bytes that were compressed."""

    __slots__ = ("inflated", "items")

    def __init__(self) -> None:
        self.items = MAX_ITEMS
        self.inflated = 8 << 20


class Reader:
    """Takes bytes from the front, within a budget."""

    __slots__ = ("_data", "at", "budget")

    def __init__(self, data: bytes, budget: Budget | None = None) -> None:
        """`budget` is that of the reader which the bytes come from, if they are a part of something larger."""
        self._data = data
        self.budget = budget or Budget()
        self.at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self.at

    def take(self, count: int) -> bytes:
        if not 0 <= count <= self.left:
            raise Unreadable(f"it ends at byte {len(self._data)}, in the middle of a field")
        self.at += count
        return self._data[self.at - count : self.at]

    def varint(self) -> int:
        """An unsigned number of seven bits a byte, at most 64 bits."""
        result = shift = 0
        while True:
            byte = self.take(1)[0]
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result & 0xFFFF_FFFF_FFFF_FFFF
            shift += 7
            if shift > 63:
                raise Unreadable("a number has more than 64 bits")

    def zigzag(self) -> int:
        number = self.varint()
        return (number >> 1) ^ -(number & 1)

    def count_one(self, depth: int) -> None:
        """One more item, at a depth; gives up when there are too many, or when they are too deep."""
        self.budget.items -= 1
        if self.budget.items < 0:
            raise Unreadable(f"it has more than {MAX_ITEMS:,} items")
        if depth > MAX_DEPTH:
            raise Unreadable(f"it is nested more than {MAX_DEPTH} deep")
