"""The contract between the broker and whatever keeps the cluster's metadata.

`Catalog` keeps the cluster id, the topics with their configs, the configs set at run time, the levels of features, the
blocks of producer ids that were given away, and what security needs: rules, credentials and quotas. The broker knows
this module only, never an engine's inside, and reads the catalog when it starts and when it changes something: nobody
asks it on the way of a record. Engines: `sqlite` (a file in the data folder), `postgres` (a schema of a PostgreSQL
database), `memory` (for tests and simulations).

**Changes.** A method that changes something is atomic. When it returns, the change is durable: a topic that a client
was told exists still exists after a power cut. When it raises CatalogError, nothing has changed. The caller applies a
change to its own state only after the method has returned.

**Changes of what is there.** The configs of a resource, the quotas of an entity and the levels of features change
through a function, which the engine calls inside its transaction with what the catalog holds by then; rules that are to
be deleted are chosen by one. So brokers that share a catalog do not undo each other's changes, and confirm none that is
not made, however old their own view is.

**One owner.** One broker uses a catalog, from one thread at a time, and what it read stays true until it changes it
itself. The embedded engine leaves the proof to the lock on the data folder. An engine that finds the catalog taken
over, or changed by others, raises CatalogLost from then on, and the broker stops.

**Time.** A method returns when the engine has finished, which takes a disk sync or round trips to a server. It is
called on the event loop, so every wait in it is bounded; `postgres` says how.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from penstock.guard import SelfExplanatory
from penstock.security.acls import AclBinding
from penstock.security.quotas import QuotaEntity
from penstock.wire.config_resources import ResourceType

PRODUCER_ID_BLOCK_SIZE = 1000
SECRET_BYTES = 32

V = TypeVar("V")

Change: TypeAlias = Callable[[Mapping[str, V]], Mapping[str, V]]
"""What is to be set, given what is set. It may raise, and then nothing has changed. It may be called more than once, or
in vain, and must not use the catalog."""
ConfigChange: TypeAlias = Change[str]
QuotaChange: TypeAlias = Change[float]
FeatureChange: TypeAlias = Change[int]
AclChoice: TypeAlias = Callable[[Sequence[AclBinding]], Collection[AclBinding]]
"""Some of the rules that there are, sorted; under the same conditions."""


def replaced_by(values: Mapping[str, V]) -> Change[V]:
    """The change that asks for these values, whatever is set."""
    return lambda found: values


class CatalogError(SelfExplanatory):
    """The catalog cannot be used, or refuses a change. Nothing has changed."""


class CatalogLost(CatalogError):
    """The catalog is not this broker's any more, or holds what the broker does not know: the broker must stop."""


class TopicExists(CatalogError):
    """A topic of that name, or with that id, is there already."""


class UnknownTopic(CatalogError):
    """There is no topic with that id."""


@dataclass(frozen=True, slots=True)
class TopicRow:
    name: str
    topic_id: bytes
    partitions: int
    configs: dict[str, str]


class CredentialRow(NamedTuple):
    """How a user proves a password with one SCRAM mechanism (1 is SHA-256, 2 is SHA-512); not the password itself."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"CredentialRow({self.user!r}, {self.mechanism}, {self.iterations})"


class Catalog(Protocol):
    @property
    def cluster_id(self) -> str:
        """The same for the life of the cluster; a new catalog makes one up."""

    # Features

    def features(self) -> dict[str, int]:
        """The finalized levels that were changed since the cluster began."""

    def features_epoch(self) -> int:
        """1 in a new cluster, and one more after each change."""

    def change_features(self, change: FeatureChange) -> int:
        """Change finalized levels; those that the change does not name stay. Returns the new epoch, or the old one if
        every level is as it was. Raises what the change raises."""

    # Producer ids

    def allocate_producer_id_block(self) -> range:
        """PRODUCER_ID_BLOCK_SIZE producer ids that nobody was given before and nobody will be given again."""

    # Topics

    def topics(self) -> list[TopicRow]:
        """All topics, by name."""

    def create_topic(self, name: str, topic_id: bytes, partitions: int, configs: Mapping[str, str]) -> None:
        """Raises TopicExists if the name or the id (16 bytes) is taken."""

    def set_partitions(self, topic_id: bytes, partitions: int) -> None:
        """Let a topic grow. It never shrinks, because records would be lost. Raises UnknownTopic."""

    def change_topic_configs(self, topic_id: bytes, change: ConfigChange) -> dict[str, str]:
        """Change a topic's configs. Returns what is set now. Raises UnknownTopic, and what the change raises."""

    def delete_topic(self, topic_id: bytes) -> None:
        """Forget a topic and its configs; its name is free again. Raises UnknownTopic."""

    # Configs set at run time, of all but topics

    def config_resources(self, resource_type: ResourceType) -> dict[str, dict[str, str]]:
        """The configs of each resource of a type that has any, by name. The name of all brokers together is empty."""

    def change_configs(self, resource_type: ResourceType, resource_name: str, change: ConfigChange) -> dict[str, str]:
        """Change the configs of one resource; without any left the resource is forgotten. Returns what is set now.
        Raises what the change raises."""

    # Security

    def secret(self) -> bytes:
        """32 random bytes that are the same for the life of the cluster and never leave it."""

    def acls(self) -> list[AclBinding]:
        """All rules, sorted."""

    def change_acls(self, added: Collection[AclBinding], removed: Collection[AclBinding]) -> None:
        """Add and remove rules. One that is there already, or not there any more, is passed over."""

    def delete_acls(self, choose: AclChoice) -> None:
        """Delete some of the rules that there are. Raises what the choice raises."""

    def credentials(self) -> list[CredentialRow]:
        """All SCRAM credentials, by user and mechanism."""

    def change_credentials(
        self, upserted: Collection[CredentialRow], deleted: Collection[tuple[str, int]]
    ) -> frozenset[tuple[str, int]]:
        """Add or replace credentials, and delete those of the given (user, mechanism). Returns which were deleted: the
        others were not there."""

    def quotas(self) -> dict[QuotaEntity, dict[str, float]]:
        """The quotas of each entity that has any."""

    def change_quotas(self, changes: Mapping[QuotaEntity, QuotaChange]) -> None:
        """Change the quotas of these entities, of all or of none; one without any left is forgotten. Raises what a
        change raises."""

    def close(self) -> None: ...
