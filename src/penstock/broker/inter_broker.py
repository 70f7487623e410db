"""How brokers of a cluster reach each other: by which listener, at which addresses, as whom.

`inter.broker.listener.name` names the listener, or `security.inter.broker.protocol` as in Kafka; without them the first
one is taken. Where it has SASL, brokers log in with SCRAM (`cluster_login`): with the mechanism of
`sasl.mechanism.inter.broker.protocol`, or the strongest that the listener takes. Without SASL they are whom their
certificates name, if it has TLS and wants them, and else nobody is authenticated, as everywhere on such a listener.
Where it has TLS, brokers use it with the keystore and the truststore of the listener (`tls_client`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from penstock.broker import cluster_login
from penstock.broker.config.definitions import ConfigError
from penstock.broker.config.listeners import LISTENER_OF_BROKERS, protocol_of
from penstock.broker.peer_connection import Login, PeerAddress
from penstock.broker.peers import Peers
from penstock.security.protocols import SecurityProtocol
from penstock.security.scram import ScramMechanism

if TYPE_CHECKING:
    import ssl

    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.config import BrokerConfig
    from penstock.broker.world import World
    from penstock.catalog.contract import Catalog

_MECHANISM = "sasl.mechanism.inter.broker.protocol"
_NOT_CHOSEN = "GSSAPI"


def peers_of(
    config: BrokerConfig,
    cluster: ClusterView,
    catalog: Catalog,
    world: World,
    mechanisms: Callable[[str], Sequence[str]],
) -> Peers:
    """`mechanisms` are those that a listener with SASL takes. Raises ConfigError with what to write."""
    name = cluster.inter_broker_listener
    if name not in cluster.advertised:
        raise ConfigError(
            f"Brokers cannot reach each other through listener {name}, which is not there. Name one of "
            f"{', '.join(cluster.advertised)} in {LISTENER_OF_BROKERS}, and remove security.inter.broker.protocol."
        )
    protocol = protocol_of(name, config.static)
    tls = _tls(name, protocol, config, cluster.advertised[name].host) if protocol.has_tls else lambda: None

    def find(node_id: int) -> PeerAddress | None:
        found = (each for each in cluster.brokers(name) if each.node_id == node_id)
        return next((PeerAddress(each.host, each.port) for each in found), None)

    login = _login(name, config, mechanisms(name), catalog) if protocol.has_sasl else None
    return Peers(config.node_id, world, find, login=login, tls=tls)


def _tls(
    listener: str, protocol: SecurityProtocol, config: BrokerConfig, host: str
) -> Callable[[], ssl.SSLContext | None]:
    from penstock.broker.tls import TlsServer
    from penstock.broker.tls_client import TlsClient

    own = config.for_listener(listener)
    client = TlsClient(own, listener)
    client.check(TlsServer(own, listener, protocol).context, host)
    return client.context


def _login(listener: str, config: BrokerConfig, enabled: Sequence[str], catalog: Catalog) -> Login:
    chosen = config.sasl_mechanism_inter_broker_protocol
    known = {each.sasl_name: each for each in sorted(ScramMechanism, reverse=True)}
    if chosen != _NOT_CHOSEN and chosen not in known:
        raise ConfigError(
            f"Cannot accept {_MECHANISM}={chosen}: brokers log in with each other with SCRAM, and with a secret that "
            f"they share in the catalog. Set it to one of {', '.join(known)}, or remove it."
        )
    usable = known if chosen == _NOT_CHOSEN else {chosen: known[chosen]}
    for name, mechanism in usable.items():
        if name in enabled:
            return Login(mechanism, cluster_login.BROKERS_USER, cluster_login.password(catalog.secret()))
    raise ConfigError(
        f"Brokers cannot log in with each other on listener {listener}, which takes {', '.join(enabled)}: add "
        f"{next(iter(usable))} to sasl.enabled.mechanisms, or name another listener in {LISTENER_OF_BROKERS}."
    )
