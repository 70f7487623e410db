"""Distinguished names in DER, put together for tests."""

from __future__ import annotations

from collections.abc import Sequence


def element(tag: int, content: bytes) -> bytes:
    size = len(content)
    length = bytes([size]) if size < 128 else b"\x82" + size.to_bytes(2)
    return bytes([tag]) + length + content


def attribute(oid: str, text: str, tag: int = 0x0C) -> bytes:
    first, second, *rest = (int(number) for number in oid.split("."))
    content = b"".join(_base_128(number) for number in (first * 40 + second, *rest))
    return element(0x30, element(0x06, content) + element(tag, text.encode()))


def name(*relative_names: Sequence[bytes]) -> bytes:
    return element(0x30, b"".join(element(0x31, b"".join(each)) for each in relative_names))


def _base_128(number: int) -> bytes:
    digits = [number & 0x7F]
    while number := number >> 7:
        digits.append(number & 0x7F | 0x80)
    return bytes(reversed(digits))
