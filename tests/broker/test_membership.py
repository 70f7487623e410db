"""A broker holds its lease, follows what others change, ends the leases of the dead, and gives partitions away."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

import pytest

from penstock.broker.membership import Identity, Membership
from penstock.broker.world import LoopWorld
from penstock.catalog.contract import CatalogError, CatalogLost
from penstock.catalog.leases import Decide, NodeIdInUse, NotRegistered, Prefetched, Renewal, Standing
from penstock.catalog.shared import BrokerRow, HostAndPort, Kind, Move, PartitionRow

LEASE = 2.4
ID = bytes(16)
HERE = {"PLAINTEXT": HostAndPort("127.0.0.1", 1)}
SECONDS = 20


class Database:
    """What the brokers share, as one of them sees it."""

    def __init__(self) -> None:
        self.version = 1
        self.epoch = 0
        self.brokers_: dict[int, BrokerRow] = {}
        self.rows: list[PartitionRow] = []
        self.standings_: list[Standing] = []
        self.settled: list[list[tuple[int, int]]] = []
        self.handed: list[Move] = []
        self.renewed = 0
        self.is_away = False
        self.is_draining = False
        self.local_changes = 0
        self.applied: list[int] = []

    def check(self) -> None:
        if self.is_away:
            raise CatalogError("away")

    # MemberReader and MemberCatalog, as far as they are used

    def register_broker(
        self, node_id: int, instance_id: str, rack: str | None, endpoints: Mapping[str, HostAndPort]
    ) -> int:
        self.check()
        row = self.brokers_.get(node_id)
        if row is not None and row.is_live and row.instance_id != instance_id:
            raise NodeIdInUse("in use")
        self.epoch += 1
        self.brokers_[node_id] = BrokerRow(node_id, self.epoch, instance_id, rack, dict(endpoints), True)
        self.version += 1
        return self.epoch

    def announce_broker(self, node_id: int, epoch: int, endpoints: Mapping[str, HostAndPort]) -> None:
        self.check()
        row = self.brokers_[node_id]
        if not row.is_live:
            raise NotRegistered("not registered")
        self.brokers_[node_id] = BrokerRow(node_id, epoch, row.instance_id, row.rack, dict(endpoints), True)
        self.version += 1

    def unregister_broker(self, node_id: int, epoch: int) -> None:
        self.end(node_id)

    def end(self, node_id: int) -> None:
        row = self.brokers_[node_id]
        self.brokers_[node_id] = BrokerRow(node_id, row.epoch, row.instance_id, row.rack, row.endpoints, False)
        self.version += 1

    def brokers(self) -> list[BrokerRow]:
        return list(self.brokers_.values())

    def prefetch(self, version: int, local_changes: int, also: frozenset[Kind] = frozenset()) -> Prefetched | None:
        self.check()
        if version == self.version and not also:
            return None
        rows: dict[tuple[object, ...], object] = {("brokers",): self.brokers(), ("partitions",): list(self.rows)}
        return Prefetched(self.version, frozenset({Kind.BROKERS, Kind.PARTITIONS}), local_changes, rows)

    @contextmanager
    def holding(self, prefetched: Prefetched) -> Iterator[None]:
        yield
        self.applied.append(prefetched.version)

    def hand_over(self, node_id: int, epoch: int, moves: Collection[Move]) -> None:
        self.check()
        assert epoch == self.brokers_[node_id].epoch
        self.handed += moves
        placed = {move[:2]: move.placement.leader for move in moves}
        self.rows = [row._replace(leader=placed.get(row[:2], row.leader)) for row in self.rows]
        self.version += 1

    # Leases

    def renew(self, node_id: int, epoch: int) -> Renewal | None:
        self.check()
        row = self.brokers_[node_id]
        if not row.is_live or row.epoch != epoch:
            return None
        self.renewed += 1
        return Renewal(self.is_draining, False)

    def standings(self) -> list[Standing]:
        self.check()
        return self.standings_

    def settle(self, refusing: Collection[tuple[int, int]], decide: Decide, *, ends_late: bool = True) -> list[int]:
        self.settled.append(list(refusing))
        for node_id, _ in refusing:
            self.end(node_id)
        moves = {move[:2]: move.placement.leader for move in decide(self.brokers(), self.rows, frozenset())}
        self.rows = [row._replace(leader=moves.get(row[:2], row.leader)) for row in self.rows]
        self.standings_ = []
        return [node_id for node_id, _ in refusing]

    def drain(self, node_id: int, *, even_the_last: bool = True) -> None:
        self.check()
        self.standings_ = [Standing(node_id, self.epoch, True, True, 1.0, True)]

    def wait(self, seconds: float) -> bool:
        self.check()
        time.sleep(0.02)
        return False

    def close(self) -> None:
        pass


class Logs:
    """The storage, as a lease sees it."""

    def __init__(self) -> None:
        self.said: list[object] = []

    def suspend(self) -> None:
        self.said.append("suspend")

    def resume(self) -> None:
        self.said.append("resume")

    def registered(self, broker_epoch: int) -> None:
        self.said.append(broker_epoch)


class Stage:
    def __init__(self) -> None:
        self.now = 1000.0
        self.database = Database()
        self.logs = Logs()
        self.lost: list[CatalogError] = []
        self.given_up: list[Move] = []
        self.drained = 0
        self.membership = self.member()

    def member(self, *, hands_over: bool = True) -> Membership:
        world = LoopWorld(asyncio.get_running_loop())
        database: object = self.database
        return Membership(
            Identity(1, "me", None),
            database,  # type: ignore[arg-type]
            database,  # type: ignore[arg-type]
            database,  # type: ignore[arg-type]
            world,
            LEASE,
            self.lost.append,
            hands_over=hands_over,
            clock=lambda: self.now,
        )

    def start(self, between: Callable[[], None] = lambda: None) -> None:
        """`between` is what happens while the storage is opened."""
        self.membership.register()
        between()

        def drain() -> None:
            self.drained += 1

        self.membership.start(HERE, self.logs, lambda: True, self.given_up.extend, drain)  # type: ignore[arg-type]

    async def until(self, condition: Callable[[], object]) -> None:
        deadline = asyncio.get_running_loop().time() + SECONDS
        while not condition():
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.01)

    async def pass_time(self, seconds: float) -> None:
        """In steps, so that event loop and thread follow."""
        for _ in range(round(seconds / 0.2)):
            self.now += 0.2
            await asyncio.sleep(0.15)


@pytest.fixture
async def stage() -> Stage:
    return Stage()


async def test_a_lease_is_renewed_as_long_as_the_event_loop_is_alive(stage: Stage) -> None:
    stage.start()
    await stage.until(lambda: stage.database.applied)
    await stage.pass_time(2 * LEASE)
    assert stage.membership.check()
    assert stage.database.renewed >= 6
    stage.membership.stop()
    assert stage.logs.said == []


async def test_a_broker_that_stood_still_says_nothing_before_it_knows_where_it_stands(stage: Stage) -> None:
    stage.start()
    await stage.until(lambda: stage.database.applied)
    stage.database.is_away = True
    stage.now += LEASE + 1
    assert not stage.membership.may_answer(), "what was computed before is not told"
    assert stage.logs.said == ["suspend"]
    assert stage.membership.may_answer(), "a refusal is"
    assert not stage.membership.check()
    stage.database.is_away = False
    await stage.until(lambda: not stage.membership.is_suspended)
    assert stage.logs.said == ["suspend", "resume"], "nobody had taken over"
    stage.membership.stop()


async def test_a_broker_whose_lease_others_ended_registers_again_under_a_new_epoch(stage: Stage) -> None:
    stage.start()
    await stage.until(lambda: stage.database.applied)
    before = stage.membership.epoch
    stage.database.end(1)
    stage.now += LEASE / 2
    await stage.until(lambda: "resume" in stage.logs.said)
    assert stage.logs.said == ["suspend", before + 1, "resume"]
    assert stage.database.brokers_[1].endpoints == HERE
    assert stage.membership.check()
    stage.membership.stop()


async def test_a_broker_that_starts_for_longer_than_its_lease_registers_again(stage: Stage) -> None:
    stage.start(lambda: stage.database.end(1))
    await stage.until(lambda: stage.database.applied)
    assert stage.logs.said == [2], "the storage writes under the second epoch"
    assert stage.database.brokers_[1].is_live
    assert stage.database.brokers_[1].endpoints == HERE
    stage.membership.stop()


async def test_a_copy_of_the_folder_under_the_same_node_id_stops_the_broker(stage: Stage) -> None:
    stage.start()
    await stage.until(lambda: stage.database.applied)
    stage.database.register_broker(1, "me", None, HERE)
    stage.now += LEASE / 2
    await stage.until(lambda: stage.lost)
    assert isinstance(stage.lost[0], CatalogLost)
    assert "node id 1" in str(stage.lost[0])
    stage.membership.stop()


async def test_a_node_id_in_use_is_refused_and_that_of_a_dead_broker_is_free(stage: Stage) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        stage.database.register_broker(1, "other", None, {"PLAINTEXT": HostAndPort("127.0.0.1", port)})
        stage.database.standings_ = [Standing(1, 1, True, False, 1.0, True)]
        with pytest.raises(NodeIdInUse):
            await asyncio.to_thread(stage.membership.register)
    stage.database.standings_ = [Standing(1, 1, True, False, 1.0, False)]
    assert await asyncio.to_thread(stage.membership.register) == 2
    assert stage.database.settled == [[(1, 1)]]


async def test_a_broker_that_has_died_is_ended_at_once_and_one_that_hangs_is_not(stage: Stage) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        hangs = HostAndPort("127.0.0.1", listening.getsockname()[1])
        stage.database.register_broker(2, "b", None, {"PLAINTEXT": hangs})
        stage.database.register_broker(3, "c", None, {"PLAINTEXT": HostAndPort("127.0.0.1", 1)})
        stage.database.rows = [PartitionRow(ID, index, leader, 0, (leader,)) for index, leader in enumerate((1, 2, 3))]
        stage.database.standings_ = [
            Standing(2, 1, True, False, 1.0, False),
            Standing(3, 2, True, False, 1.0, False),
        ]
        stage.start()
        await stage.until(lambda: stage.database.settled)
        assert stage.database.settled == [[(3, 2)]]
        assert [row.leader for row in stage.database.rows] == [1, 2, 1]
        stage.membership.stop()


async def test_a_lease_that_is_over_is_ended_only_by_who_has_held_its_own_for_as_long(stage: Stage) -> None:
    stage.database.register_broker(2, "b", None, HERE)
    stage.database.standings_ = [Standing(2, 1, True, False, -1.0, True)]
    stage.start()
    await stage.until(lambda: stage.database.applied)
    await stage.pass_time(LEASE / 2)
    assert stage.database.settled == []
    await stage.pass_time(LEASE)
    await stage.until(lambda: stage.database.settled)
    stage.membership.stop()


async def test_a_broker_that_leaves_closes_its_logs_before_others_lead_them(stage: Stage) -> None:
    stage.database.register_broker(2, "b", None, HERE)
    stage.database.rows = [PartitionRow(ID, index, 1, 0, (1, 2)) for index in range(60)]
    stage.start()
    await stage.until(lambda: stage.database.applied)
    await asyncio.wait_for(stage.membership.leave(), SECONDS)
    assert stage.given_up == stage.database.handed
    assert {row.leader for row in stage.database.rows} == {2}
    assert not stage.database.brokers_[1].is_live
    assert stage.logs.said == ["suspend"]
    stage.membership.stop()


async def test_a_broker_without_controlled_shutdown_leaves_its_partitions_to_whoever_takes_over(stage: Stage) -> None:
    stage.membership = stage.member(hands_over=False)
    stage.database.register_broker(2, "b", None, HERE)
    stage.database.rows = [PartitionRow(ID, 0, 1, 0, (1, 2))]
    stage.start()
    await stage.until(lambda: stage.database.applied)
    await asyncio.wait_for(stage.membership.leave(), SECONDS)
    assert stage.database.handed == []
    assert not stage.database.brokers_[1].is_live
    assert stage.logs.said == ["suspend"]
    stage.membership.stop()


async def test_a_broker_that_leaves_without_its_database_does_not_wait_for_it(stage: Stage) -> None:
    stage.start()
    await stage.until(lambda: stage.database.applied)
    stage.database.is_away = True
    await asyncio.wait_for(stage.membership.leave(), SECONDS)
    stage.membership.stop()


async def test_a_broker_that_is_to_drain_is_told_once(stage: Stage) -> None:
    stage.start()
    stage.database.is_draining = True
    await stage.until(lambda: stage.database.applied)
    await stage.pass_time(LEASE)
    assert stage.drained == 1
    stage.membership.stop()


async def test_who_leads_too_many_gives_some_away_when_nothing_else_changes(stage: Stage) -> None:
    stage.database.register_broker(2, "b", None, HERE)
    stage.database.rows = [PartitionRow(ID, index, 1, 0, (1,)) for index in range(4)]
    stage.start()
    await stage.until(lambda: stage.database.applied)
    await stage.pass_time(2 * LEASE + 4)
    await stage.until(lambda: stage.database.handed)
    assert sorted(row.leader for row in stage.database.rows) == [1, 1, 2, 2]
    assert stage.given_up == stage.database.handed
    stage.membership.stop()


async def test_what_was_read_before_a_change_of_this_broker_is_read_again(stage: Stage) -> None:
    stage.membership.register()
    reads: list[int] = []
    prefetch = stage.database.prefetch

    def read(version: int, local_changes: int, also: frozenset[Kind] = frozenset()) -> Prefetched | None:
        reads.append(local_changes)
        if len(reads) == 1:
            stage.database.local_changes += 1  # while the thread reads
        return prefetch(version, local_changes, also)

    stage.database.prefetch = read  # type: ignore[method-assign]
    stage.membership.start(HERE, stage.logs, lambda: True, stage.given_up.extend, lambda: None)  # type: ignore[arg-type]
    await stage.until(lambda: stage.database.applied)
    assert reads == [0, 1]
    assert len(stage.database.applied) == 1
    stage.membership.stop()
