"""The users of this broker: their SCRAM credentials, kept in the catalog and at hand for every login.

For a user who does not exist there is a made-up credential, the same each time, that no password fits; so a login takes
the same steps whether the user exists or not. Whoever holds sessions of users (`on_changed`) is told about those whose
credentials were replaced or deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple

from penstock import guard
from penstock.broker import cluster_login
from penstock.broker.storage_errors import changing
from penstock.catalog.contract import CredentialRow
from penstock.security import scram
from penstock.security.scram import Credential, ScramMechanism

if TYPE_CHECKING:
    from penstock.catalog.contract import Catalog


class Stored(NamedTuple):
    """A credential, real or made up, and the mechanism that it is for."""

    mechanism: ScramMechanism
    credential: Credential


class Users:
    def __init__(self, catalog: Catalog, *, takes_brokers: bool = False) -> None:
        """`takes_brokers`: whether other brokers of the same catalog log in here."""
        self._catalog = catalog
        self._takes_brokers = takes_brokers
        self._of_brokers: dict[ScramMechanism, Credential] = {}
        self._secret = catalog.secret()
        self._credentials = self._read()
        self._model: dict[ScramMechanism, Credential | None] = {}
        self.on_changed: list[Callable[[frozenset[str]], None]] = []
        """Called with the users of whom a credential was replaced or deleted."""

    def _read(self) -> dict[tuple[str, ScramMechanism], Credential]:
        return {
            (row.user, ScramMechanism(row.mechanism)): Credential(
                row.salt, row.iterations, row.stored_key, row.server_key
            )
            for row in self._catalog.credentials()
        }

    def reload(self) -> None:
        """Other brokers have changed credentials."""
        before, self._credentials = self._credentials, self._read()
        self._model.clear()
        self._changed(
            frozenset(key[0] for key, credential in before.items() if self._credentials.get(key) != credential)
        )

    def names(self) -> list[str]:
        return sorted({user for user, _ in self._credentials})

    def iterations(self, user: str) -> dict[ScramMechanism, int]:
        """The mechanisms for which a user has credentials, and with how many iterations each."""
        found = ((mechanism, self.find(user, mechanism)) for mechanism in ScramMechanism)
        return {mechanism: each.iterations for mechanism, each in found if each is not None}

    def find(self, user: str, mechanism: ScramMechanism) -> Credential | None:
        return self._credentials.get((user, mechanism))

    def look_up(self, user: str, mechanism: ScramMechanism) -> Credential:
        """The credential of a user; for one who does not exist, a made-up one that looks like most of the others."""
        if self.is_of_brokers(user):
            if mechanism not in self._of_brokers:
                self._of_brokers[mechanism] = cluster_login.credential(self._secret, mechanism)
            return self._of_brokers[mechanism]
        made_up = scram.made_up_credential(mechanism, self._secret, user, self._most_common(mechanism))
        return self.find(user, mechanism) or made_up

    def is_of_brokers(self, user: str) -> bool:
        """Whether this is as whom other brokers log in."""
        return self._takes_brokers and user == cluster_login.BROKERS_USER

    def look_up_any(self, user: str) -> Stored:
        """The strongest credential of a user, for checking a password itself."""
        best_first = sorted(ScramMechanism, reverse=True)
        for mechanism in best_first:
            if (credential := self.find(user, mechanism)) is not None:
                return Stored(mechanism, credential)
        common = (mechanism for mechanism in best_first if self._most_common(mechanism) is not None)
        mechanism = next(common, best_first[0])
        return Stored(mechanism, self.look_up(user, mechanism))

    def change(
        self, upserted: Collection[CredentialRow], deleted: Collection[tuple[str, ScramMechanism]] = ()
    ) -> frozenset[str]:
        """Write changes to the catalog, then let them count. Returns the users of whom there was nothing to delete.
        Raises KafkaError if that fails."""
        keys = [(user, int(mechanism)) for user, mechanism in deleted]
        with changing("credentials"):
            found = self._catalog.change_credentials(upserted, keys)
        replaced = {row.user for row in upserted if (row.user, ScramMechanism(row.mechanism)) in self._credentials}
        for user, mechanism in deleted:
            self._credentials.pop((user, mechanism), None)
        for row in upserted:
            credential = Credential(row.salt, row.iterations, row.stored_key, row.server_key)
            self._credentials[row.user, ScramMechanism(row.mechanism)] = credential
        self._model.clear()
        self._changed(frozenset(replaced | {user for user, _ in deleted}))
        return frozenset(key[0] for key in keys if key not in found)

    def _changed(self, changed: frozenset[str]) -> None:
        if changed:
            for callback in self.on_changed:
                guard.attempt("ending the sessions of changed users", callback, changed)

    def _most_common(self, mechanism: ScramMechanism) -> Credential | None:
        """A credential with the length of salt and the number of iterations that most have."""
        if mechanism not in self._model:
            shapes = {
                (len(each.salt), each.iterations): each
                for (_, its), each in self._credentials.items()
                if its is mechanism
            }
            counted = Counter(
                (len(each.salt), each.iterations) for (_, its), each in self._credentials.items() if its is mechanism
            )
            self._model[mechanism] = shapes[counted.most_common(1)[0][0]] if counted else None
        return self._model[mechanism]
