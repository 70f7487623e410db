"""JAAS entries, in which Kafka's configs name users and passwords.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="…";

A text holds one or more entries; each names a login module, a control flag, and options. Values are words or stand in
quotes, in which a backslash escapes. An error says what is wrong and where, and never repeats a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

PLAIN_LOGIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_LOGIN_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_LOGIN_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"

_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
_USER = "user_"
_EXTENSION = "extension_"
_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)"""
    r"""|(?P<quoted>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"""|(?P<sign>[=;])"""
    r"""|(?P<word>[A-Za-z0-9_.$\-\u00a0-\U0010ffff]+)""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_CONTROL = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JaasError(ValueError):
    """A text that is no JAAS configuration."""


@dataclass(frozen=True, slots=True)
class JaasEntry:
    login_module: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    control_flag: str = "required"

    @property
    def username(self) -> str | None:
        return self.options.get("username")

    @property
    def password(self) -> str | None:
        return self.options.get("password")

    @property
    def users(self) -> dict[str, str]:
        """The passwords of the users that a broker takes with PLAIN, from the options `user_NAME`."""
        return self._beginning(_USER)

    @property
    def extensions(self) -> dict[str, str]:
        """The SASL extensions that a client sends with its token, from the options `extension_NAME`."""
        return self._beginning(_EXTENSION)

    def _beginning(self, prefix: str) -> dict[str, str]:
        return {name.removeprefix(prefix): value for name, value in self.options.items() if name.startswith(prefix)}


def parse_jaas(text: str) -> list[JaasEntry]:
    """All entries of a text. Raises JaasError."""
    tokens = _Tokens(text)
    entries = []
    while not tokens.at_end:
        entries.append(_entry(tokens))
    if not entries:
        raise JaasError("a JAAS configuration has an entry: a login module, 'required', options, and ';' at the end")
    return entries


def parse_jaas_entry(text: str) -> JaasEntry:
    """The entry of a config such as `sasl.jaas.config`, which has one. Raises JaasError."""
    entries = parse_jaas(text)
    if len(entries) > 1:
        raise JaasError(f"a JAAS configuration for one listener or client has one entry, and this has {len(entries)}")
    return entries[0]


def _entry(tokens: _Tokens) -> JaasEntry:
    login_module = tokens.take("a login module's class name")
    flag = tokens.take(f"a control flag ('required') after {login_module}").lower()
    if flag not in _FLAGS:
        raise JaasError(f"JAAS: {login_module} is not followed by a control flag such as 'required'")
    options: dict[str, str] = {}
    while not tokens.skip(";"):
        position = f"{login_module}, option {len(options) + 1}"
        name = tokens.take(f"an option or ';' ({position})")
        if not tokens.skip("="):
            raise JaasError(f"JAAS: an option is written name=\"value\", and '=' is missing ({position})")
        options[name] = tokens.take(f"a value ({position})")
    return JaasEntry(login_module, options, flag)


class _Tokens:
    def __init__(self, text: str) -> None:
        self._tokens = list(_split(text))
        self._position = 0

    @property
    def at_end(self) -> bool:
        return self._position == len(self._tokens)

    def take(self, what: str) -> str:
        """The next word or quoted text."""
        if self.at_end:
            raise JaasError(f"JAAS: the text ends where {what} is expected; an entry ends with ';'")
        is_sign, text = self._tokens[self._position]
        if is_sign:
            raise JaasError(f"JAAS: there is {text!r} where {what} is expected")
        self._position += 1
        return text

    def skip(self, sign: str) -> bool:
        found = not self.at_end and self._tokens[self._position] == (True, sign)
        self._position += found
        return found


def _split(text: str) -> Iterator[tuple[bool, str]]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise JaasError(
                f"JAAS: character {position + 1} does not belong there;"
                ' a value with other characters than letters, digits and ._-$ stands in quotes: name="value"'
            )
        position = match.end()
        if match["sign"]:
            yield True, match["sign"]
        elif match["quoted"]:
            yield False, _ESCAPE.sub(_unescaped, match["quoted"][1:-1])
        elif match["word"]:
            yield False, match["word"]


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped[0] in "01234567":
        return chr(int(escaped, 8))
    return _CONTROL.get(escaped, escaped)
