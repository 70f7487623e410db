"""`ssl.principal.mapping.rules`: from the distinguished name of a client's certificate to the name of its principal.

Rules are `RULE:pattern/replacement/` with an optional L or U for lower or upper case behind it, or `DEFAULT`, which
keeps the name; they are separated by commas, and the first whose pattern matches the whole name decides. In a
replacement `$1` is what the first group matched; a number that no group has is text. A slash within a rule is written
`\\/`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)"
_REFERENCE = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)


class NoRuleApplies(Exception):
    """None of the rules matches a name, so its client has no principal."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        mapped = self.pattern.sub(lambda found: _replaced(self.replacement, found), name)
        return mapped.lower() if self.case == "L" else mapped.upper() if self.case == "U" else mapped


class PrincipalMapper:
    def __init__(self, rules: str) -> None:
        """Raises ValueError, naming the rule, for one that is malformed."""
        self._rules = _parse(rules.strip())

    def name_of(self, distinguished_name: str) -> str:
        """The name of the principal; raises NoRuleApplies."""
        for rule in self._rules:
            if (name := rule.apply(distinguished_name)) is not None:
                return name
        raise NoRuleApplies(f"no rule of ssl.principal.mapping.rules applies to {distinguished_name!r}")


def _parse(text: str) -> list[_Rule]:
    rules: list[_Rule] = []
    at = 0
    separator = re.compile(r"\s*(?:,\s*|$)")
    while at < len(text):
        if (empty := separator.match(text, at)) and empty.end() > at:
            at = empty.end()
            continue
        match = re.compile(_RULE).match(text, at)
        end = separator.match(text, match.end()) if match else None
        if match is None or end is None:
            raise ValueError(
                f"{text[at:]!r} is not a rule; write RULE:pattern/replacement/, with L or U behind it for lower or "
                "upper case, or DEFAULT"
            )
        rules.append(_rule(match))
        at = end.end()
    return rules


def _rule(match: re.Match[str]) -> _Rule:
    if match[1]:
        return _Rule(None, "", "")
    try:
        return _Rule(re.compile(match[2]), match[3], match[4])
    except re.error as error:
        raise ValueError(f"the pattern of {match[0]!r} cannot be used: {error}") from error


def _replaced(replacement: str, match: re.Match[str]) -> str:
    """As Java's `Matcher.replaceAll`: the longest group number that exists counts, the digits behind it are text."""
    groups = match.re.groups

    def expand(reference: re.Match[str]) -> str:
        if reference[1] is not None:
            return reference[1]
        digits = reference[2]
        for length in range(len(digits), 0, -1):
            if int(digits[:length]) <= groups:
                return (match[int(digits[:length])] or "") + digits[length:]
        return reference[0]

    return _REFERENCE.sub(expand, replacement)
