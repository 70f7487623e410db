"""Plan what each of several brokers on one machine is started with, from the settings of all of them.

The brokers have consecutive node ids, from `node.id` on, and consecutive ports: the first has those that are
configured, the second each of them plus one, and so on, whether they are listened on, advertised or for metrics. Port 0
stays what it is: the system chooses.

Brokers reach each other through a listener of their own on the loopback interface, which takes the login of brokers and
no other (`cluster_login`): it works whatever the listeners of clients need, and however those are advertised. Where
`inter.broker.listener.name` or `security.inter.broker.protocol` is set, that listener is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from penstock.broker.config.broker import BROKER
from penstock.broker.config.listeners import LISTENER_OF_BROKERS, PROTOCOL_MAP, listener_of_brokers
from penstock.broker.foundation import Settings
from penstock.broker.listeners import Address, ListenError, parse_address
from penstock.security.protocols import SecurityProtocol
from penstock.security.scram import ScramMechanism

BETWEEN_BROKERS = "BETWEEN_BROKERS"
_OWN_LISTENER = f"{BETWEEN_BROKERS}://127.0.0.1:0"
_METRICS = "penstock.metrics.listen"
_LISTS = ("listeners", "advertised.listeners")
_HIGHEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Plan:
    """One broker of several."""

    node_id: int
    settings: Settings
    node_ids: tuple[int, ...]
    """All of them, this one among them."""


def plan(settings: Settings, configs: Mapping[str, str], first_node_id: int, count: int) -> list[Plan]:
    """What each broker is started with. `configs` are those of the settings with everything filled in.

    Raises ListenError, with what to write, where ports of brokers would meet.
    """
    _check_ports(settings, configs, count)
    node_ids = tuple(range(first_node_id, first_node_id + count))
    return [
        Plan(node_id, _settings(settings, configs, node_id, place), node_ids) for place, node_id in enumerate(node_ids)
    ]


def _settings(settings: Settings, configs: Mapping[str, str], node_id: int, place: int) -> Settings:
    own = dict(configs)
    own["node.id"] = own["broker.id"] = str(node_id)
    for name in _LISTS:
        if own.get(name):
            own[name] = ",".join(_shifted(text, place) for text in _items(own[name]))
    if own.get(_METRICS):
        own[_METRICS] = _shifted(own[_METRICS], place)
    listen = [_shifted(text, place) for text in settings.listen]
    if not listener_of_brokers(own):
        listen.append(_OWN_LISTENER)
        own[LISTENER_OF_BROKERS] = BETWEEN_BROKERS
        protocols = own.get(PROTOCOL_MAP) or str(BROKER[PROTOCOL_MAP].default)
        own[PROTOCOL_MAP] = f"{protocols},{BETWEEN_BROKERS}:{SecurityProtocol.SASL_PLAINTEXT.value}"
        mechanism = ScramMechanism.SCRAM_SHA_512.sasl_name
        own[f"listener.name.{BETWEEN_BROKERS.lower()}.sasl.enabled.mechanisms"] = mechanism
    advertise = [_shifted(text, place) for text in _named(settings.advertise, settings.listen)]
    return replace(settings, listen=listen, advertise=advertise, configs=own)


def _named(advertise: list[str], listen: list[str]) -> list[str]:
    """Addresses that are advertised for listeners by their places, with the listeners' names.

    The listener between brokers, which is advertised as it is, would make their numbers differ.
    """
    if len(advertise) != len(listen):
        return advertise
    return [
        f"{listener.partition('://')[0]}://{text}" if "://" in listener and "://" not in text else text
        for text, listener in zip(advertise, listen, strict=True)
    ]


def _check_ports(settings: Settings, configs: Mapping[str, str], count: int) -> None:
    """Raise ListenError if a range of ports does not fit, or if two of them overlap."""
    of_controllers = {name.upper() for name in _items(configs.get("controller.listener.names", ""))}
    ranges: list[tuple[str, Address]] = [(text, parse_address(text)) for text in settings.listen]
    ranges = [(text, address) for text, address in ranges if address.name not in of_controllers]
    if configs.get(_METRICS):
        ranges.append((f"{_METRICS}={configs[_METRICS]}", parse_address(configs[_METRICS])))
    ranges = [(text, address) for text, address in ranges if address.port]
    for text, address in ranges:
        if address.port + count - 1 > _HIGHEST_PORT:
            raise ListenError(
                f"{count} brokers need {count} ports from {text} on, and the highest port is {_HIGHEST_PORT}: "
                "choose a lower one"
            )
    ranges.sort(key=lambda each: each[1].port)
    for (text, address), (other, following) in pairwise(ranges):
        if following.port < address.port + count:
            raise ListenError(
                f"each of {count} brokers takes the next port, so {text} takes {address.port} to "
                f"{address.port + count - 1}, and {other} begins within: choose ports that are at least {count} apart"
            )


def _shifted(text: str, places: int) -> str:
    """The same address, that many ports further."""
    address = parse_address(text)
    if not places or not address.port:
        return text
    name, separator, _ = text.strip().rpartition("://")
    return f"{name}{separator}{replace(address, port=address.port + places)}"


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]
