"""Names of topics and groups in addresses.

A name may hold dots, slashes and anything else, while `.json` and `.live` at the end of an address mean another form of
the page. So whatever is not a letter, a digit, `-` or `_` is written as `~` and two hex digits per byte. No address can
climb out of its folder, and none has two meanings.
"""

from __future__ import annotations

import re

_SAFE = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
_ESCAPE = re.compile(rb"~([0-9A-F]{2})")


class MalformedName(ValueError):
    """An address holds a name that `encode_name` never makes."""


def encode_name(name: str) -> str:
    """A name as one segment of an address."""
    return "".join(chr(byte) if byte in _SAFE else f"~{byte:02X}" for byte in name.encode())


def decode_name(segment: str) -> str:
    """The name that a segment of an address stands for."""
    try:
        name = _ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), segment.encode()).decode()
    except UnicodeDecodeError:
        raise MalformedName(f"{segment!r} is not a name in an address") from None
    if encode_name(name) != segment:
        raise MalformedName(f"{segment!r} is not a name in an address")
    return name
