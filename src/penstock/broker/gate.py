"""The gate: what a request does to what, in the words of Kafka's access model, and whether it may.

Every API names the operations that it stands for, and on which kind of resource, in the table beside the handlers
(`handlers.table`). A handler asks the gate about each name in its request before it does anything, and answers what
Kafka answers for those that are denied. Without an authorizer (`authorizer.class.name`) the gate is open: everybody may
do everything, and every operation is an authorized one.

What is denied is logged with the rule that decided, unless the request only wanted to see what it may (a list of topics
shows what may be described, and leaves out the rest without a word). The log is bounded: a client that is denied
thousands of times a second is one line with a count.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from penstock import guard
from penstock.coordination.context import EVERY_TOPIC, TopicView
from penstock.security.acls import CLUSTER_NAME
from penstock.security.operations import SUPPORTED_OPERATIONS, as_bits
from penstock.security.principals import parse_principal
from penstock.wire.acls import AclOperation, AclResource, PatternType

if TYPE_CHECKING:
    from penstock.broker.requests import AnyRequest
    from penstock.security.acls import AclBinding
    from penstock.security.authorizer import Authorizer
    from penstock.security.principals import Principal

log = logging.getLogger("penstock.authorizer")

_LOGGED_PER_WINDOW = 20
_WINDOW_SECONDS = 10.0
_LONGEST_SHOWN = 256
_FROM = " from "


class Access(NamedTuple):
    operation: AclOperation
    resource: AclResource


OPERATIONS_NOT_REQUESTED = -(2**31)


ALL_OPERATIONS = {resource: as_bits(operations) for resource, operations in SUPPORTED_OPERATIONS.items()}
"""The operations that mean something on a resource of each type, as responses carry them."""
TOPIC_OPERATIONS = ALL_OPERATIONS[AclResource.TOPIC]
GROUP_OPERATIONS = ALL_OPERATIONS[AclResource.GROUP]
CLUSTER_OPERATIONS = ALL_OPERATIONS[AclResource.CLUSTER]


class Gate:
    """Whether a request may do something. `authorizer` is None while everybody may do everything."""

    def __init__(self, authorizer: Authorizer | None, monotonic: Callable[[], float]) -> None:
        self.authorizer = authorizer
        self._rules_version = 0
        self.on_rules_changed: list[Callable[[], None]] = []
        self._denials = _Denials(monotonic)

    @property
    def is_open(self) -> bool:
        return self.authorizer is None

    def change_rules(self, added: Iterable[AclBinding], removed: Iterable[AclBinding]) -> None:
        """Decide by other rules from now on, and tell those who let requests wait."""
        if self.authorizer is not None:
            self.authorizer.remove(removed)
            self.authorizer.add(added)
            self._rules_version += 1
            for callback in self.on_rules_changed:
                guard.attempt("checking what waits against changed rules", callback)

    def set_rules(self, rules: Iterable[AclBinding]) -> None:
        """Decide by these rules from now on, which other brokers have changed."""
        if self.authorizer is not None:
            before, now = set(self.authorizer.rules()), set(rules)
            if before != now:
                self.change_rules(now - before, before - now)

    def allows(self, request: AnyRequest, operation: AclOperation, resource: AclResource, name: str) -> bool:
        """Whether whoever sent the request may do this; a denial is logged."""
        authorizer = self.authorizer
        if authorizer is None:
            return True
        connection = request.connection
        if authorizer.allows(connection.principal, connection.peer_host, operation, resource, name):
            return True
        self._denials.log(authorizer, connection.principal, connection.peer_host, operation, resource, name)
        return False

    def allows_visitor(
        self, principal: Principal, host: str, operation: AclOperation, resource: AclResource, name: str
    ) -> bool:
        """As `allows`, for somebody who did not come over a connection of Kafka's protocol."""
        authorizer = self.authorizer
        if authorizer is None or authorizer.allows(principal, host, operation, resource, name):
            return True
        self._denials.log(authorizer, principal, host, operation, resource, name)
        return False

    def shows(self, request: AnyRequest, operation: AclOperation, resource: AclResource, name: str) -> bool:
        """As `allows`, for what is left out of an answer: nobody tried to do something, so nothing is logged."""
        authorizer = self.authorizer
        if authorizer is None:
            return True
        connection = request.connection
        return authorizer.allows(connection.principal, connection.peer_host, operation, resource, name)

    def allows_on_cluster(self, request: AnyRequest, operation: AclOperation) -> bool:
        return self.allows(request, operation, AclResource.CLUSTER, CLUSTER_NAME)

    def allows_creating(self, request: AnyRequest, topic: str) -> bool:
        """Whether a topic of this name may be created: with CREATE on the cluster, or on the topic itself."""
        return self.shows(request, AclOperation.CREATE, AclResource.CLUSTER, CLUSTER_NAME) or self.allows(
            request, AclOperation.CREATE, AclResource.TOPIC, topic
        )

    def allows_on_any(self, request: AnyRequest, operation: AclOperation, resource: AclResource) -> bool:
        """Whether there may be a resource of this type on which it is allowed."""
        authorizer = self.authorizer
        if authorizer is None:
            return True
        connection = request.connection
        return authorizer.allows_any(connection.principal, connection.peer_host, operation, resource)

    def view(self, request: AnyRequest) -> TopicView:
        """Which topics whoever sent the request may describe, also when it is long answered."""
        authorizer = self.authorizer
        if authorizer is None:
            return EVERY_TOPIC
        principal, host = request.connection.principal, request.connection.peer_host
        return TopicView(
            lambda name: authorizer.allows(principal, host, AclOperation.DESCRIBE, AclResource.TOPIC, name),
            self._rules_version,
        )

    def authority(self, request: AnyRequest) -> str:
        """Whoever sent the request, as text: for what the broker is to do later with their rights."""
        return f"{request.connection.principal}{_FROM}{request.connection.peer_host}"

    def allows_copying(self, authority: str, source: str, target: str) -> bool:
        """Whether an authority may read one topic and write what it read to another."""
        authorizer = self.authorizer
        if authorizer is None:
            return True
        text, _, host = authority.rpartition(_FROM)
        if not text:
            return False
        principal = parse_principal(text)
        return authorizer.allows(principal, host, AclOperation.READ, AclResource.TOPIC, source) and authorizer.allows(
            principal, host, AclOperation.WRITE, AclResource.TOPIC, target
        )

    def operations(self, request: AnyRequest, resource: AclResource, name: str) -> int:
        """The authorized operations on a resource, as responses carry them."""
        authorizer = self.authorizer
        if authorizer is None:
            return ALL_OPERATIONS[resource]
        connection = request.connection
        return authorizer.operations(connection.principal, connection.peer_host, resource, name)

    def cluster_operations(self, request: AnyRequest) -> int:
        return self.operations(request, AclResource.CLUSTER, CLUSTER_NAME)


class _Denials:
    """The log of denials: so many lines in a while, then only their number."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._window_ends = 0.0
        self._logged = 0
        self._left_out = 0

    def log(
        self,
        authorizer: Authorizer,
        principal: Principal,
        host: str,
        operation: AclOperation,
        resource: AclResource,
        name: str,
    ) -> None:
        now = self._monotonic()
        if now >= self._window_ends:
            if self._left_out:
                log.warning("%d more requests were denied", self._left_out)
            self._window_ends = now + _WINDOW_SECONDS
            self._logged = self._left_out = 0
        if self._logged >= _LOGGED_PER_WINDOW:
            self._left_out += 1
            return
        self._logged += 1
        decision = authorizer.decide(principal, host, operation, resource, name)
        log.warning(
            "denied %s from %s: %s on %s %s, %s",
            _shown(str(principal)),
            host,
            operation.name,
            resource.name,
            _shown(name),
            decision.reason.value if decision.rule is None else _in_words(decision.rule),
        )


def _shown(text: str) -> str:
    """A name that a client chose: escaped, and no longer than a line of a log should be."""
    return repr(text) if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]!r}..."


def _in_words(rule: AclBinding) -> str:
    kind = "names that begin with" if rule.pattern_type is PatternType.PREFIXED else "the name"
    return (
        f"by the rule {rule.permission.name} {rule.operation.name} for {_shown(rule.principal)} "
        f"from {_shown(rule.host)} about {kind} {_shown(rule.resource_name)}"
    )
