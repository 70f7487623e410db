"""Names in SASL messages: `=` and `,` are escaped as `=3D` and `=2C` (RFC 5802, saslname)."""

from __future__ import annotations

import re

from penstock.security.failures import MalformedToken

_ESCAPED = re.compile(r"=(2C|3D)?")


def escape(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def unescape(saslname: str) -> str:
    return _ESCAPED.sub(_unescaped, saslname)


def _unescaped(match: re.Match[str]) -> str:
    if match[1] is None:
        raise MalformedToken("a name with = that is neither =2C nor =3D")
    return "," if match[1] == "2C" else "="
