"""The configs of listeners: the security protocol of each, and which configs hold for one listener alone.

`listener.name.NAME.ssl.keystore.type`, with the listener's name in lower case, counts for that listener in place of
`ssl.keystore.type`. For SASL a mechanism may stand before the config's own name:
`listener.name.NAME.scram-sha-256.sasl.jaas.config`. Whoever asks for a config of a listener asks `ListenerConfig`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from penstock.broker.config.broker import BROKER
from penstock.broker.config.definitions import ConfigError, Definition, Value
from penstock.security.protocols import SecurityProtocol

if TYPE_CHECKING:
    from penstock.broker.config.resolver import BrokerConfig

LISTENER_PREFIX = "listener.name."
"""A config with this, a listener's name and a dot before its own name holds for that listener alone."""
PROTOCOL_MAP = "listener.security.protocol.map"
LISTENER_OF_BROKERS = "inter.broker.listener.name"
_FAMILIES_OF_LISTENERS = ("ssl.", "sasl.")
_CONFIGS_OF_LISTENERS = frozenset({"connections.max.reauth.ms", "max.connection.creation.rate", "max.connections"})
_LISTENER_CONFIGS = ("listeners", "advertised.listeners")


class ListenerConfig:
    """The configs that hold for one listener, as they are when they are asked for."""

    def __init__(self, config: BrokerConfig, listener_name: str) -> None:
        self._config = config
        self._prefix = f"{LISTENER_PREFIX}{listener_name.lower()}."

    def name_of(self, name: str, mechanism: str = "") -> str:
        """The full name of the setting that counts for a config: the listener's own, or the plain one."""
        own = f"{self._prefix}{mechanism.lower()}.{name}" if mechanism else self._prefix + name
        if self._config.is_set(own):
            return own
        if mechanism and self._config.is_set(self._prefix + name):
            return self._prefix + name
        return name

    def value(self, name: str, mechanism: str = "") -> Value | None:
        """What counts for a config: the most special setting, or else Kafka's default."""
        text = self._config.text(self.name_of(name, mechanism))
        return BROKER[name].default_value() if text is None else BROKER[name].parse(text)

    def text(self, name: str, mechanism: str = "") -> str:
        """The value of a config whose type is text; empty when it has none."""
        value = self.value(name, mechanism)
        return "" if value is None else str(value)

    def items(self, name: str, mechanism: str = "") -> list[str]:
        """The items of a config whose type is a list."""
        return [item for item in self.text(name, mechanism).split(",") if item]

    def is_set(self, name: str, mechanism: str = "") -> bool:
        return self._config.is_set(self.name_of(name, mechanism))


def definition_of(name: str) -> Definition | None:
    """The definition of a config, also of one that holds for a listener alone."""
    return BROKER.get(bare_name(name))


def holds_for_listeners(bare: str) -> bool:
    """Whether a listener can have a setting of its own of this config."""
    return bare.startswith(_FAMILIES_OF_LISTENERS) or bare in _CONFIGS_OF_LISTENERS


def bare_name(name: str) -> str:
    """`listener.name.NAME.ssl.keystore.type` and `listener.name.NAME.MECHANISM.sasl.jaas.config` set what ends them."""
    if not name.startswith(LISTENER_PREFIX):
        return name
    bare = name.removeprefix(LISTENER_PREFIX).partition(".")[2]
    return bare if bare in BROKER else bare.partition(".")[2] or bare


def protocol_of(listener_name: str, configs: Mapping[str, str]) -> SecurityProtocol:
    """The security protocol of a listener by its name; raises ConfigError, with what to write, if it has none."""
    protocols = _protocols(configs.get(PROTOCOL_MAP) or str(BROKER[PROTOCOL_MAP].default))
    name = listener_name.upper()
    protocol = protocols.get(name, name)
    try:
        return SecurityProtocol(protocol)
    except ValueError:
        known = ", ".join(each.value for each in SecurityProtocol)
        if name in protocols:
            raise ConfigError(
                f"Cannot accept {PROTOCOL_MAP}: {protocol!r} of {listener_name} is not a security protocol. "
                f"Use one of {known}."
            ) from None
        given = configs.get(PROTOCOL_MAP, "").strip()
        mapped = f"{given},{name}:SASL_SSL" if given else f"{name}:SASL_SSL"
        raise ConfigError(
            f"No security protocol is defined for listener {listener_name}. Set {PROTOCOL_MAP}={mapped}, with the "
            f"protocol that you want for it: {known}."
        ) from None


def check_listeners(configs: Mapping[str, str], addresses: Iterable[str] = ()) -> None:
    """Raise ConfigError if a listener of `configs`, or one of `addresses`, has no security protocol.

    Listeners of controllers are left out: none is opened.
    """
    of_controllers = {name.strip().upper() for name in configs.get("controller.listener.names", "").split(",")}
    named = [text for name in _LISTENER_CONFIGS for text in configs.get(name, "").split(",")]
    for text in [*named, *addresses]:
        listener, separator, _ = text.strip().partition("://")
        if separator and listener.upper() not in of_controllers:
            protocol_of(listener, configs)


def listener_of_brokers(configs: Mapping[str, str]) -> str:
    """The listener that is chosen for brokers among themselves; empty if none is.

    As in Kafka, a security protocol stands for the listener of its name. Raises ConfigError if another is named too.
    """
    name = configs.get(LISTENER_OF_BROKERS, "").strip()
    protocol = configs.get("security.inter.broker.protocol", "").strip()
    if name and protocol and protocol_of(name, configs).value != protocol:
        raise ConfigError(
            f"Cannot accept security.inter.broker.protocol={protocol} beside {LISTENER_OF_BROKERS}={name}, a listener "
            f"with {protocol_of(name, configs).value}. Remove one of the two."
        )
    return name or protocol


def _protocols(text: str) -> dict[str, str]:
    pairs = (item.upper().partition(":") for item in text.split(","))
    return {listener.strip(): protocol.strip() for listener, _, protocol in pairs}
