"""Commands on the data folder of a stopped broker: they hold the folder's lock and change its catalog directly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.failures import Failure, sentence
from penstock.cli.options import option

if TYPE_CHECKING:
    from penstock.security.acls import AclBinding, AclFilter

data_option = option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Work on the data folder of a stopped broker instead of a running broker.",
)


class DataFolder:
    """Users and rules of a data folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def users(self) -> dict[str, list[tuple[int, int]]]:
        """The mechanism and iterations of each credential of each user."""
        found: dict[str, list[tuple[int, int]]] = {}
        with self._catalog() as catalog:
            for row in catalog.credentials():
                found.setdefault(row.user, []).append((row.mechanism, row.iterations))
        return found

    def set_password(self, user: str, password: str) -> None:
        from penstock.broker.users import set_password

        with self._catalog() as catalog:
            set_password(catalog, user, password)

    def remove_user(self, user: str) -> None:
        from penstock.broker.users import remove_user

        with self._catalog() as catalog:
            remove_user(catalog, user)

    def acls(self, acl_filter: AclFilter) -> list[AclBinding]:
        with self._catalog() as catalog:
            return [rule for rule in catalog.acls() if acl_filter.matches(rule)]

    def change_acls(self, added: list[AclBinding], removed: list[AclBinding]) -> None:
        with self._catalog() as catalog:
            catalog.change_acls(added, removed)

    @contextmanager
    def _catalog(self) -> Iterator[Catalog]:
        from penstock.broker.foundation import open_catalog
        from penstock.catalog.contract import CatalogError
        from penstock.log.errors import FolderInUse, StorageError

        try:
            with open_catalog(self.path) as catalog:
                yield catalog
        except FolderInUse:
            raise Failure(
                f"A broker runs on {self.path}.\n"
                "  Ask the broker:     the same command without --data, with --bootstrap HOST:PORT\n"
                "  Or stop it first, if nobody can log in to it any more."
            ) from None
        except (CatalogError, StorageError) as error:
            raise Failure(sentence(str(error))) from error


if TYPE_CHECKING:
    from penstock.catalog.contract import Catalog
