"""Keeps a broker a member of its cluster: its lease, what others change, and who takes over from whom.

One thread talks to the database that the brokers share. It renews the lease, as long as the event loop is alive; reads
what has changed and hands it to the loop; notices brokers that are gone, and ends their leases; and gives partitions
away when this broker stops, or leads too many. The loop never waits for it.

**The lease.** It counts from before the renewal was sent, by a clock that also runs while the machine sleeps. `check`
is called before every request and, for answers that come late or had to wait for the catalog, before the answer: a
broker that was stopped for longer than its lease suspends its logs before it says anything that may not be true any
more. Commits need no lease: they are guarded by the leader epoch.

**Who is gone.** A broker whose lease is over, or one whose database session has ended and whose listeners refuse
connections: that is a process which has died, and its partitions move at once. Nobody's lease is ended by a broker that
has not held its own for one whole lease, since PostgreSQL may have been away for everybody.

**Giving away.** Only the leader gives away a partition while it lives, and it closes the log first. So at any time at
most one broker serves a partition, but for one whose lease was ended.
"""

from __future__ import annotations

import logging
import math
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.bounded_log import BoundedLog
from penstock.broker.world import WaitsFor
from penstock.catalog.contract import CatalogError, CatalogLost
from penstock.catalog.leases import NodeIdInUse, NotRegistered, Standing
from penstock.catalog.shared import Kind
from penstock.cluster.lease import Lease, LeaseState
from penstock.cluster.placement import Node, hand_over, nodes_of, rescue

if TYPE_CHECKING:
    from penstock.broker.world import Timer, World
    from penstock.catalog.leases import Leases, MemberCatalog, MemberReader, Prefetched
    from penstock.catalog.shared import BrokerRow, HostAndPort, Move, PartitionRow
    from penstock.storage.contract import LeasedStorage
    from penstock.threads import Thread

log = logging.getLogger("penstock.cluster")

LOOK_SECONDS = 0.5
"""How often a broker looks at the leases of the others, and whether it has missed a change."""
WAIT_SECONDS = 0.2
PROBE_SECONDS = 0.5
HAND_OVER_PARTITIONS = 25
"""How many partitions move at a time: each is led by nobody until the last of them is loaded."""
SETTLED_SECONDS = 3.0
"""How long nothing has changed before leaders are balanced."""
LEAVE_SECONDS = 10.0
_TELL_SECONDS = 5.0
_DISCARDS_MAX = 3
_REPLACE_SECONDS = 3.0
_LED = frozenset({Kind.BROKERS, Kind.TOPICS, Kind.PARTITIONS})


# Without it (macOS) a machine that sleeps keeps its lease for as long as it slept; its commits are fenced all the same.
_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_time() -> float:
    return time.clock_gettime(_CLOCK)


def refuses(address: HostAndPort) -> bool:
    """Whether nobody listens at an address. A machine that does not answer says nothing about that."""
    try:
        socket.create_connection(address, PROBE_SECONDS).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


@dataclass(frozen=True, slots=True)
class Identity:
    node_id: int
    instance_id: str
    rack: str | None


class Membership:
    """`register` comes first, before the storage is there; `start` when the listeners are open."""

    def __init__(
        self,
        identity: Identity,
        catalog: MemberCatalog,
        reader: MemberReader,
        leases: Leases,
        world: World,
        lease_seconds: float,
        on_lost: Callable[[CatalogError], None],
        *,
        renewal_seconds: float = math.inf,
        is_balancing: Callable[[], bool] = lambda: True,
        hands_over: bool = True,
        clock: Callable[[], float] = boot_time,
        refuses: Callable[[HostAndPort], bool] = refuses,
    ) -> None:
        """`catalog` belongs to the event loop; `reader` and `leases` to the thread. `on_lost` stops the broker. The
        lease is renewed every `renewal_seconds`, or more often if it is short."""
        self._identity = identity
        self.catalog = catalog
        self._reader = reader
        self._leases = leases
        self._world = world
        self._on_lost = on_lost
        self._is_balancing = is_balancing
        self._hands_over = hands_over
        self._clock = clock
        self._address_refuses = refuses
        self.lease = Lease(lease_seconds, renewal_seconds)
        self.epoch = -1
        self.ended = 0
        """How many leases of others this broker has ended."""
        self.moved_away = 0
        self._storage: LeasedStorage
        self._apply: Callable[[], bool]
        self._give_up: Callable[[Sequence[Move]], None]
        self._on_drain: Callable[[], None]
        self._endpoints: Mapping[str, HostAndPort] = {}
        # The loop's
        self.is_suspended = False
        self._pulse = clock()
        self._pulse_timer: Timer | None = None
        # Shared: the loop counts, the thread looks
        self._held_until = 0.0
        self._applied = 0
        self._discarded = 0
        # The thread's
        self._thread: Thread | None = None
        self._is_stopping = self._is_leaving = self._is_draining = False
        self._has_left = world.threads.event()
        self._renew_at = self._look_at = self._changed_at = 0.0
        self._has_news = False
        self._brokers: Sequence[BrokerRow] = ()
        self._partitions: Sequence[PartitionRow] = ()
        self._failures = BoundedLog(log, world.monotonic, "the cluster's database could not be used")

    # -- life, in the event loop -----------------------------------------------------------------------------------

    def register(self) -> int:
        """Begin a lease, and return the broker's epoch. Raises NodeIdInUse, or CatalogError, with what to do.

        A broker that has died with its data folder is replaced at once: another with its node id may start.
        """
        deadline = time.monotonic() + _REPLACE_SECONDS
        while True:
            try:
                self._register({})
                self._leases.renew(self._identity.node_id, self.epoch)  # from now on the session speaks for the broker
                return self.epoch
            except NodeIdInUse:
                self._brokers = self._reader.brokers()
                mine = [each for each in self._leases.standings() if each.node_id == self._identity.node_id]
                gone = [(each.node_id, each.epoch) for each in mine if self._is_dead(each)]
                if gone:
                    self._leases.settle(gone, lambda *_: (), ends_late=False)
                elif time.monotonic() >= deadline or not all(map(self._refuses, mine)):
                    raise
                self._world.threads.sleep(WAIT_SECONDS)

    def _register(self, endpoints: Mapping[str, HostAndPort]) -> None:
        sent_at = self._clock()
        identity = self._identity
        self.epoch = self._reader.register_broker(identity.node_id, identity.instance_id, identity.rack, endpoints)
        self.lease.registered(sent_at)
        self._held_until = sent_at + self.lease.seconds

    def start(
        self,
        endpoints: Mapping[str, HostAndPort],
        storage: LeasedStorage,
        apply: Callable[[], bool],
        give_up: Callable[[Sequence[Move]], None],
        on_drain: Callable[[], None],
    ) -> None:
        """`apply` follows the catalog, and says whether all of it could be; `give_up` closes the logs of partitions;
        `on_drain` stops the broker."""
        self._endpoints = endpoints
        self._storage = storage
        self._apply = apply
        self._give_up = give_up
        self._on_drain = on_drain
        try:
            self._reader.announce_broker(self._identity.node_id, self.epoch, endpoints)
        except NotRegistered:  # opening the storage has taken longer than the lease, which nobody renewed
            self._register(endpoints)
            storage.registered(self.epoch)
        self._beat()
        self._thread = self._world.threads.start("penstock-membership", self._run)

    async def leave(self) -> None:
        """Hand over what this broker leads, if it is to, and give the lease back: who is left takes over the rest."""
        self._is_leaving = True
        if self._thread is not None:
            await self._world.in_thread(lambda: self._has_left.wait(LEAVE_SECONDS + _TELL_SECONDS), WaitsFor.SERVER)

    def stop(self) -> None:
        self._is_stopping = True
        if self._pulse_timer is not None:
            self._pulse_timer.cancel()
        if self._thread is not None:
            self._thread.join(_TELL_SECONDS)
        self._leases.close()

    def _beat(self) -> None:
        """Show the thread that the event loop is alive."""
        self._pulse = self._clock()
        self.check()
        if not self._is_stopping:
            self._pulse_timer = self._world.call_later(self.lease.seconds / 24, self._beat)

    def check(self) -> bool:
        """Whether the lease is held. If it is over, the logs are suspended when this returns."""
        if self.is_suspended:
            return False
        if self._clock() < self._held_until:
            return True
        self._suspend()
        return False

    def may_answer(self) -> bool:
        """Whether what was computed a moment ago may be told: not if the lease has ended without anybody noticing."""
        return self.is_suspended or self.check()

    def _suspend(self) -> None:
        if not self.is_suspended:
            self.is_suspended = True
            tell = log.info if self._is_leaving else log.warning
            tell("the lease of broker %d is over: it serves no more than it knows", self._identity.node_id)
            self._storage.suspend()

    def _take(self, prefetched: Prefetched | None) -> None:
        """Apply what the thread has read, and lead again if the lease is held again."""
        if prefetched is not None and prefetched.version >= self._applied:
            is_stale = prefetched.local_changes != self.catalog.local_changes
            if is_stale and self._discarded < _DISCARDS_MAX:
                self._discarded += 1
                return
            self._discarded = 0
            if is_stale:  # this broker changes much: read now, and wait for it
                is_applied = self._apply()
            else:
                with self.catalog.holding(prefetched):
                    is_applied = self._apply()
            self._applied = prefetched.version if is_applied else 0
        if self.is_suspended and self._clock() < self._held_until:
            log.warning("broker %d holds its lease again", self._identity.node_id)
            self.is_suspended = False
            self._storage.resume()

    @property
    def age_seconds(self) -> float:
        """Since the lease was last renewed."""
        return max(self._clock() - (self._held_until - self.lease.seconds), 0.0)

    def nodes(self) -> list[Node]:
        """The brokers that may be given partitions."""
        return nodes_of(self._brokers) or [Node(self._identity.node_id, self._identity.rack)]

    # -- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._is_stopping:
            try:
                self._round()
            except CatalogLost as error:
                self._world.call_soon_threadsafe(partial(self._lost, error))
                return
            except CatalogError as error:
                self._failures.warning("%s", error)
                self._world.threads.sleep(WAIT_SECONDS)
                if self._is_leaving:
                    self._has_left.set()
            except Exception:
                log.exception("the membership task failed and continues")
                self._world.threads.sleep(LOOK_SECONDS)

    def _round(self) -> None:
        now = self._clock()
        if now >= self._renew_at and now - self._pulse < self.lease.seconds / 4:
            self._renew()
        if self._is_leaving:
            self._leave()
            return
        if now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            self._read()
            self._expire()
        self._balance()
        if self._leases.wait(WAIT_SECONDS):
            self._read()

    def _renew(self) -> None:
        sent_at = self._clock()
        renewal = self._leases.renew(self._identity.node_id, self.epoch)
        if renewal is None:
            self._fenced()
            return
        was_held = self.lease.state(self._clock()) is LeaseState.HELD
        self.lease.renewed(sent_at)
        self._held_until = max(self._held_until, sent_at + self.lease.seconds)
        self._renew_at = sent_at + self.lease.pause_seconds
        if not was_held:
            self._read(_LED)
        if renewal.is_draining and not self._is_draining and not self._is_leaving:
            self._is_draining = True
            self._world.call_soon_threadsafe(self._on_drain)

    def _fenced(self) -> None:
        """Others have ended the lease, and lead what this broker led. It becomes a member again, under a new epoch."""
        node_id = self._identity.node_id
        self.lease.refused()
        self._held_until = 0.0
        self._tell(self._suspend)
        row = next((row for row in self._reader.brokers() if row.node_id == node_id), None)
        if row is not None and row.is_live and row.epoch != self.epoch:
            addresses = ", ".join(f"{each.host}:{each.port}" for each in row.endpoints.values())
            raise CatalogLost(
                f"another broker has registered with node id {node_id} ({addresses or 'it is starting'}), from a copy "
                "of this data folder: give each broker a folder and a node.id of its own"
            )
        log.warning("other brokers have ended the lease of broker %d: it registers again", node_id)
        try:
            self._register(self._endpoints)
        except NodeIdInUse as error:
            raise CatalogLost(str(error)) from error
        epoch = self.epoch
        self._tell(lambda: self._storage.registered(epoch))
        self._renew_at = 0.0
        self._read(_LED)

    def _read(self, also: frozenset[Kind] = frozenset()) -> None:
        """Have the loop apply what has changed, and `also` what has not."""
        while True:
            local_changes = self.catalog.local_changes
            prefetched = self._reader.prefetch(self._applied, local_changes, also)
            if prefetched is None and not self.is_suspended:
                return
            if prefetched is not None:
                self._remember(prefetched)
            self._tell(lambda prefetched=prefetched: self._take(prefetched))  # type: ignore[misc]
            if not self._discarded:
                return

    def _remember(self, prefetched: Prefetched) -> None:
        brokers, partitions = prefetched.rows.get(("brokers",)), prefetched.rows.get(("partitions",))
        if isinstance(brokers, list):
            self._brokers = brokers
        if isinstance(partitions, list):
            self._partitions = partitions
        if brokers is not None or partitions is not None:
            self._changed_at = self._clock()
            self._has_news = True

    def _tell(self, function: Callable[[], None]) -> None:
        """Run something in the event loop, and wait until it was, for a while."""
        done = self._world.threads.event()

        def run() -> None:
            try:
                function()
            finally:
                done.set()

        self._world.call_soon_threadsafe(run)
        if not done.wait(_TELL_SECONDS) and not self._is_stopping:
            raise CatalogError(f"the event loop of this broker was busy for {_TELL_SECONDS:g} seconds")

    def _lost(self, error: CatalogError) -> None:
        self._suspend()
        self._on_lost(error)

    # -- others ----------------------------------------------------------------------------------------------------

    def _expire(self) -> None:
        """End the leases of brokers that are gone, and have somebody lead what nobody leads."""
        standings = [each for each in self._leases.standings() if each.node_id != self._identity.node_id]
        refusing = [(each.node_id, each.epoch) for each in standings if self._is_dead(each)]
        now = self._clock()
        is_over = any(each.is_live and each.lease_seconds < 0 for each in standings) and self.lease.may_end_others(now)
        draining = frozenset(each.node_id for each in standings if each.is_draining)
        if not refusing and not is_over and not rescue(self._brokers, self._partitions, draining):
            return
        if self.lease.state(now) is not LeaseState.HELD:
            return
        if ended := self._leases.settle(refusing, rescue, ends_late=is_over):
            self.ended += len(ended)
            log.warning("ended the leases of the brokers %s", ", ".join(map(str, ended)))
        self._read()

    def _is_dead(self, standing: Standing) -> bool:
        return standing.is_live and not standing.has_session and self._refuses(standing)

    def _refuses(self, standing: Standing) -> bool:
        """Whether a broker was reachable once, and nobody listens at its addresses."""
        row = next((row for row in self._brokers if row.node_id == standing.node_id), None)
        return row is not None and bool(row.endpoints) and all(map(self._address_refuses, row.endpoints.values()))

    # -- giving away -----------------------------------------------------------------------------------------------

    def _balance(self) -> None:
        now = self._clock()
        is_settled = now - self._changed_at >= SETTLED_SECONDS and self.lease.may_end_others(now)
        if not is_settled and (not self._has_news or self.lease.state(now) is not LeaseState.HELD):
            return
        self._has_news = False
        if is_settled:
            self._changed_at = now
        draining = frozenset(each.node_id for each in self._leases.standings() if each.is_draining)
        if self._identity.node_id not in draining:
            self._move(draining, is_settled and self._is_balancing())

    def _leave(self) -> None:
        """Hand everything over, in portions, and unregister."""
        node_id = self._identity.node_id
        deadline = time.monotonic() + LEAVE_SECONDS
        self._leases.drain(node_id)
        draining = frozenset(each.node_id for each in self._leases.standings() if each.is_draining)
        self._read()
        while self._hands_over and time.monotonic() < deadline and self._move(draining, False):
            if self._clock() >= self._renew_at:
                self._renew()
        self._held_until = 0.0
        self._tell(self._suspend)
        self._reader.unregister_broker(node_id, self.epoch)
        self._is_stopping = True
        self._has_left.set()

    def _move(self, draining: frozenset[int], is_balancing: bool) -> int:
        """Give the next portion away. Returns how many partitions that were."""
        moves = hand_over(
            self._identity.node_id,
            self._brokers,
            self._partitions,
            draining,
            HAND_OVER_PARTITIONS,
            is_balancing=is_balancing,
        )
        if not moves:
            return 0
        try:
            self._tell(lambda: self._give_up(moves))
            self._reader.hand_over(self._identity.node_id, self.epoch, moves)
        except CatalogError:
            self._applied = 0  # what was closed is opened again, if it is still this broker's
            raise
        self.moved_away += len(moves)
        self._read()
        return len(moves)
