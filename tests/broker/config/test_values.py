"""The broker's configs as attributes: declared for each that is in use, with the type that its values have."""

from __future__ import annotations

import typing

from penstock.broker.config import BROKER, BrokerConfig, ConfigType
from penstock.broker.config.values import BrokerValues


def test_every_config_in_use_is_declared_with_its_type() -> None:
    python_types = {
        ConfigType.BOOLEAN: bool,
        ConfigType.INT: int,
        ConfigType.SHORT: int,
        ConfigType.LONG: int,
        ConfigType.DOUBLE: float,
        ConfigType.LIST: list[str],
    }
    declared = typing.get_type_hints(BrokerValues)
    expected: dict[str, object] = {}
    for definition in BROKER.values():
        if definition.is_used:
            kind = python_types.get(definition.type, str)
            is_given = definition.default is not None or kind == list[str] or definition.name == "node.id"
            expected[definition.name.replace(".", "_")] = kind if is_given else kind | None
    assert declared == expected


def test_each_declared_attribute_is_there_with_a_value_of_its_type() -> None:
    config = BrokerConfig()
    for name, declared in typing.get_type_hints(BrokerValues).items():
        kinds = typing.get_args(declared) if typing.get_origin(declared) is not list else (list,)
        assert isinstance(getattr(config, name), kinds or declared), name
