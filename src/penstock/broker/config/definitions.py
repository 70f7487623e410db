"""What a config is: its name, its type, its default, which values it takes, and who may change it when.

Definitions are kept as tables of text, one line each, because there are four hundred of them::

    log.segment.bytes int =1073741824 >=1048576 @cluster
        Size at which a new segment is started.

that is: name, type, default (none means null), valid values, and whether it can be changed at run time for the whole
cluster or for each broker by itself; then a sentence of documentation. A config without documentation is one that
Penstock has no use for.

Values travel as text, in files, requests and the catalog, and are parsed with Java's rules, since Kafka's users write
them for Java: numbers may have a sign and surrounding blanks but no underscores; true and false in any case.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import TypeAlias

Value: TypeAlias = bool | int | float | str
"""A parsed value. Lists stay text: items separated by commas, without blanks."""


class ConfigError(ValueError):
    """A config was refused; the message says which, why, and what would be accepted."""


class ConfigType(IntEnum):
    """Kafka's numbers, as DescribeConfigs reports them."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Scope(Enum):
    """Where a broker's config can be changed at run time."""

    READ_ONLY = "read-only"
    PER_BROKER = "per broker"
    CLUSTER = "cluster-wide or per broker"


@dataclass(frozen=True, slots=True)
class Definition:
    name: str
    type: ConfigType
    default: str | None
    valid: str
    """Which values are taken, in the notation of the tables; empty takes all of the type."""
    scope: Scope
    is_internal: bool
    """Taken, but not shown by DescribeConfigs unless it was set."""
    documentation: str
    _default_value: Value | None = field(default=None, init=False, repr=False, compare=False)
    """What `default` stands for, once somebody has asked: a broker asks for most of them, several times."""

    @property
    def is_used(self) -> bool:
        return bool(self.documentation)

    @property
    def is_sensitive(self) -> bool:
        # Kafka does not know what the value of a custom config means, and takes it for a secret.
        return self.type in (ConfigType.PASSWORD, ConfigType.UNKNOWN)

    def parse(self, text: str) -> Value:
        """The value that `text` stands for, or a ConfigError in Kafka's words."""
        value = _parse(self.name, self.type, text)
        if self.valid and (fault := _fault(self.valid, value)):
            raise invalid(self.name, text.strip(), fault.format(name=self.name, value=text.strip()))
        return value

    def default_value(self) -> Value | None:
        if self._default_value is None and self.default is not None:
            object.__setattr__(self, "_default_value", self.parse(self.default))
        return self._default_value


def invalid(name: str, value: str, reason: str) -> ConfigError:
    return ConfigError(f"Invalid value {value} for configuration {name}: {reason}")


def format_value(value: Value | None) -> str | None:
    """The text of a parsed value, as Kafka's Java would print it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _format_double(value)
    return None if value is None else str(value)


def read_table(table: str) -> list[Definition]:
    definitions: list[Definition] = []
    lines = table.strip().splitlines()
    for at, line in enumerate(lines):
        if line.startswith(" "):
            continue
        name, kind, *words = line.split()
        is_documented = at + 1 < len(lines) and lines[at + 1].startswith(" ")
        default, valid, scope, is_internal = None, "", Scope.READ_ONLY, False
        for word in words:
            if word.startswith("="):
                default = word[1:]
            elif word == "@cluster":
                scope = Scope.CLUSTER
            elif word == "@broker":
                scope = Scope.PER_BROKER
            elif word == "internal":
                is_internal = True
            else:
                valid += word
        documentation = lines[at + 1].strip() if is_documented else ""
        definitions.append(Definition(name, _TYPES[kind], default, valid, scope, is_internal, documentation))
    return definitions


_TYPES = {
    "bool": ConfigType.BOOLEAN,
    "string": ConfigType.STRING,
    "int": ConfigType.INT,
    "short": ConfigType.SHORT,
    "long": ConfigType.LONG,
    "double": ConfigType.DOUBLE,
    "list": ConfigType.LIST,
    "class": ConfigType.CLASS,
    "password": ConfigType.PASSWORD,
    "custom": ConfigType.UNKNOWN,  # read by what Kafka plugs in, and unknown to Kafka itself
}
_BITS = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}
# Patterns stay text until they are first used: few programs use any but the first, and compiling takes time at start.
_DOUBLE = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?"
_DURATION = (
    r"(?i)P(?=[-+.0-9T])([-+]?[0-9]+D)?(T(?=[-+.0-9])([-+]?[0-9]+H)?([-+]?[0-9]+M)?([-+]?[0-9]+([.,][0-9]{0,9})?S)?)?"
)
_THROTTLED_REPLICAS = r"|\*|[0-9]+:[0-9]+(,[0-9]+:[0-9]+)*"
_LONGEST_INTEGER = 20


def _parse(name: str, kind: ConfigType, text: str) -> Value:
    text = text.strip()
    match kind:
        case ConfigType.BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise invalid(name, text, "Expected value to be either true or false")
            return text.lower() == "true"
        case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
            digits = text[1:] if text[:1] in ("+", "-") else text
            bound = 1 << (_BITS[kind] - 1)
            is_number = digits.isascii() and digits.isdigit() and len(text) <= _LONGEST_INTEGER
            if not is_number or not -bound <= int(text) < bound:
                raise invalid(name, text, f"Not a number of type {kind.name}")
            return int(text)
        case ConfigType.DOUBLE:
            if not re.fullmatch(_DOUBLE, text):
                raise invalid(name, text, "Not a number of type DOUBLE")
            return float(text.rstrip("fFdD"))
        case ConfigType.LIST:
            return ",".join(item.strip() for item in text.split(","))
        case _:
            return text


def _format_double(value: float) -> str:
    text = repr(value)
    mantissa, exponent_sign, exponent = text.partition("e")
    if exponent_sign:
        return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"
    return text


def _fault(valid: str, value: Value) -> str:
    """Why `value` is not among the valid ones; empty when it is."""
    if named := _NAMED_RULES.get(valid):
        return named(value)
    if valid.startswith("{"):
        return _fault_of_choice(valid, str(value))
    low, _, high = valid.removeprefix(">=").partition("..")
    assert isinstance(value, int | float)
    if value < float(low):
        return f"Value must be at least {low}"
    if high and value > float(high):
        return f"Value must be no more than {high}"
    return ""


def _fault_of_choice(valid: str, value: str) -> str:
    """`{a,b}` names the choices of a string, or of each item of a list; `any-case` behind it ignores case."""
    names, _, any_case = valid[1:].partition("}")
    choices = names.split(",")
    if any_case:
        is_valid = value.lower() in [choice.lower() for choice in choices]
    else:
        is_valid = not value or all(item in choices for item in value.split(","))
    if is_valid:
        return ""
    return f"String must be one of{' (case insensitive)' if any_case else ''}: {', '.join(choices)}"


def _fault_of_gzip_level(value: Value) -> str:
    is_valid = value == -1 or (isinstance(value, int) and 1 <= value <= 9)
    return "" if is_valid else "Value must be between 1 and 9 or equal to -1"


def _fault_of_offset_reset(value: Value) -> str:
    text = str(value)
    kind, _, duration = text.partition(":")
    if text in ("earliest", "latest"):
        return ""
    if kind == "by_duration" and re.fullmatch(_DURATION, duration):
        return ""
    return (
        "Invalid value `{value}` for configuration {name}. The value must be either 'earliest', 'latest' or of the "
        "format 'by_duration:<PnDTnHnMn.nS>'."
    )


def _fault_of_throttled_replicas(value: Value) -> str:
    if re.fullmatch(_THROTTLED_REPLICAS, str(value)):
        return ""
    return (
        "{name} must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )


def _fault_of_numbers_of_connections(value: Value) -> str:
    if all(re.fullmatch(r"\s*\S+:\d+\s*", item) for item in str(value).split(",") if item):
        return ""
    return "Must be a list of address:number, separated by commas"


def _fault_of_emptiness(value: Value) -> str:
    return "" if value else "String must be non-empty"


def _fault_of_rebalance_protocols(value: Value) -> str:
    if not value:
        return "The list must not be empty"
    if wrong := _fault_of_choice("{consumer,classic,share,streams}", str(value)):
        return wrong
    return "" if "classic" in str(value).split(",") else "Disabling the 'classic' protocol is not supported"


def _fault_of_principals(value: Value) -> str:
    for text in str(value).split(";"):
        kind, colon, name = text.strip().partition(":")
        if text.strip() and not (kind and colon and name):
            return f"expected a string in format principalType:principalName but got {text.strip()}"
    return ""


_NAMED_RULES: dict[str, Callable[[Value], str]] = {
    "gzip-level": _fault_of_gzip_level,
    "offset-reset": _fault_of_offset_reset,
    "throttled-replicas": _fault_of_throttled_replicas,
    "non-empty": _fault_of_emptiness,
    "principals": _fault_of_principals,
    "numbers-of-connections": _fault_of_numbers_of_connections,
    "rebalance-protocols": _fault_of_rebalance_protocols,
}
