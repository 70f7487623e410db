"""IncrementalAlterConfigs' four operations on the configs of one resource."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum

from penstock.broker.config.definitions import ConfigError, ConfigType, Definition


class Operation(IntEnum):
    """Kafka's numbers. APPEND and SUBTRACT work on the items of a list."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def altered(
    definitions: Mapping[str, Definition],
    current: Mapping[str, str],
    operations: Iterable[tuple[str, Operation, str]],
) -> dict[str, str]:
    """The configs of a resource after the operations (name, operation, value). Values are not checked here."""
    configs = dict(current)
    for name, operation, value in operations:
        match operation:
            case Operation.SET:
                configs[name] = value
            case Operation.DELETE:
                configs.pop(name, None)
            case Operation.APPEND | Operation.SUBTRACT:
                configs[name] = _altered_list(definitions.get(name), name, configs.get(name), operation, value)
    return configs


def _altered_list(
    definition: Definition | None, name: str, current: str | None, operation: Operation, value: str
) -> str:
    if definition is None or definition.type is not ConfigType.LIST:
        raise ConfigError(f"Can't {operation.name} to key {name} because its type is not LIST.")
    items = _items(definition.default or "" if current is None else current)
    if operation is Operation.APPEND:
        items += [item for item in _items(value) if item not in items]
    else:
        removed = _items(value)
        items = [item for item in items if item not in removed]
    return ",".join(items)


def _items(text: str) -> list[str]:
    return [item for each in text.split(",") if (item := each.strip())]
