"""How a broker of a simulated cluster reaches its database: what is in production the connections to PostgreSQL.

Reads are repeated once when the connection was lost. A change that may have been made is repeated for a while under
its id, and so settled; a commit raises CommitLogAway, and the engine repeats it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from penstock.catalog.contract import CatalogError
from penstock.catalog.leases import Decide, Prefetched, Renewal, Standing
from penstock.catalog.read_ahead import read_ahead
from penstock.catalog.shared import Changes, HostAndPort, Kind, Move, SharedCatalog
from penstock.simulation.database import Database, Session
from penstock.simulation.remote import NoAnswer, Refused, Server
from penstock.simulation.strands import Wait
from penstock.storage.objects.commit_log import CommitLogAway

if TYPE_CHECKING:
    from penstock.simulation.loop import Process

P = ParamSpec("P")
T = TypeVar("T")

_SETTLE_SECONDS = 5.0
_PAUSE_SECONDS = 0.1
_READS = frozenset(
    [
        "version",
        "changes_since",
        "brokers",
        "partitions",
        "features",
        "features_epoch",
        "topics",
        "config_resources",
        "secret",
        "acls",
        "credentials",
        "quotas",
    ]
)


class Link:
    """One connection of a process to the database."""

    def __init__(self, server: Server, database: Database, process: Process, lease_seconds: float) -> None:
        self.server = server
        self.database = database
        self.process = process
        self.lease_seconds = lease_seconds
        self.session = Session(process)

    def ask(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Raises NoAnswer, or what the work raises."""
        try:
            return self.server.ask(self.process, work.__name__, partial(work, *args, **kwargs))
        except NoAnswer:
            # The database hears of it, unless nothing passes.
            if not self.server.world.network.is_parted(self.process, self.server.name):
                self.session.close()
            self.session = Session(self.process)
            raise

    def read(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return self.ask(work, *args, **kwargs)
        except NoAnswer:
            pass
        try:
            return self.ask(work, *args, **kwargs)
        except NoAnswer as error:
            raise CatalogError(f"cannot read the catalog: {error}") from error

    def change(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = self.server.world.loop
        change_id = self.server.world.chance.randbytes(16).hex()
        is_repetition = is_unsettled = False
        settle_until = 0.0
        while True:
            try:
                return self.ask(self.database.change, change_id, partial(work, *args, **kwargs))
            except NoAnswer as error:
                is_unsettled = is_unsettled or not isinstance(error, Refused)
                settle_until = settle_until or loop.time() + _SETTLE_SECONDS
                if loop.time() >= settle_until or (is_repetition and not is_unsettled):
                    raise CatalogError(f"cannot change the catalog: {error}") from error
            is_repetition = True
            Wait(loop.strands).until_ended(_PAUSE_SECONDS)


class CatalogLink:
    """See `leases.MemberReader`. What it lacks itself it has the database do."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._tables = link.database.catalog
        self.cluster_id = self._tables.cluster_id

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(self._link.read if name in _READS else self._change, getattr(self._tables, name))

    def _change(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._link.change(work, *args, **kwargs)

    def prefetch(self, version: int, local_changes: int, also: frozenset[Kind] = frozenset()) -> Prefetched | None:
        return read_ahead(cast(SharedCatalog, self), version, local_changes, also)

    def register_broker(
        self, node_id: int, instance_id: str, rack: str | None, endpoints: Mapping[str, HostAndPort]
    ) -> int:
        link = self._link
        return self._change(link.database.register, node_id, instance_id, rack, endpoints, link.lease_seconds)

    def announce_broker(self, node_id: int, epoch: int, endpoints: Mapping[str, HostAndPort]) -> None:
        self._change(self._link.database.announce, node_id, epoch, endpoints)

    def hand_over(self, node_id: int, epoch: int, moves: Collection[Move]) -> None:
        self._change(self._link.database.hand_over, node_id, epoch, moves)

    def close(self) -> None:
        self._link.session.close()


class HeldCatalogLink(CatalogLink):
    """See `leases.MemberCatalog`."""

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self.local_changes = 0
        self._held: Prefetched | None = None

    @contextmanager
    def holding(self, prefetched: Prefetched) -> Iterator[None]:
        self._held = prefetched
        try:
            yield
        finally:
            self._held = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(self._find, name) if name in _READS else super().__getattr__(name)

    def _find(self, name: str, *args: object) -> object:
        if self._held is not None:
            if name == "changes_since":
                return Changes(self._held.version, self._held.kinds)
            if (name, *args) in self._held.rows:
                return self._held.rows[name, *args]
        return self._link.read(getattr(self._tables, name), *args)

    def _change(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self.local_changes += 1
        try:
            return super()._change(work, *args, **kwargs)
        finally:
            self.local_changes += 1


class LeaseLink:
    """See `leases.Leases`."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._has_news = False
        self._waiting: Wait | None = None
        link.database.on_change.append(self._changed)

    def _changed(self) -> None:
        """The notification travels, unless nothing passes."""
        server, process = self._link.server, self._link.process
        if not process.is_dead and not server.world.network.is_parted(process, server.name):
            server.world.loop.call_later(server.latency(), self._received, context=process.context)

    def _received(self) -> None:
        self._has_news = True
        if self._waiting is not None:
            self._waiting.end()

    def wait(self, seconds: float) -> bool:
        if not self._has_news:
            self._waiting = Wait(self._link.server.world.loop.strands)
            self._waiting.until_ended(seconds)
            self._waiting = None
        had_news, self._has_news = self._has_news, False
        return had_news

    def renew(self, node_id: int, epoch: int) -> Renewal | None:
        link = self._link
        is_draining = self._ask(link.database.renew, node_id, epoch, link.lease_seconds, link.session)
        had_news, self._has_news = self._has_news, False
        return None if is_draining is None else Renewal(is_draining, had_news)

    def standings(self) -> list[Standing]:
        return self._ask(self._link.database.standings)

    def settle(self, refusing: Collection[tuple[int, int]], decide: Decide, *, ends_late: bool = True) -> list[int]:
        link = self._link
        return self._ask(link.database.settle, refusing, decide, link.lease_seconds, ends_late=ends_late)

    def drain(self, node_id: int, *, even_the_last: bool = True) -> None:
        self._ask(self._link.database.drain, node_id, even_the_last=even_the_last)

    def _ask(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return self._link.ask(work, *args, **kwargs)
        except NoAnswer as error:
            raise CatalogError(str(error)) from error

    def close(self) -> None:
        self._link.session.close()


class CommitLink:
    """See `commit_log.CommitLog`: all of it is done by the database."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(self._ask, getattr(self._link.database.commits, name))

    def _ask(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return self._link.ask(work, *args, **kwargs)
        except NoAnswer as error:
            raise CommitLogAway(str(error)) from error

    def close(self) -> None:
        self._link.session.close()
