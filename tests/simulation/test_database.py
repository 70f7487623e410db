"""The database of a simulated cluster answers as PostgreSQL does, and its sessions end as sessions do."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, Protocol

import pytest

from penstock.catalog.contract import CatalogError
from penstock.catalog.leases import NodeIdInUse
from penstock.catalog.postgres_membership import PostgresMembership
from penstock.catalog.postgres_shared import SharedPostgresCatalog
from penstock.catalog.shared import NOBODY, Direction, HostAndPort, Move, Placement
from penstock.cluster.placement import rescue
from penstock.simulation.database import Database, Session
from penstock.simulation.loop import Process
from tests.catalog.postgres_catalogs import new_schema, open_shared
from tests.postgres import PostgresServer

LEASE = 600.0
AT = {"PLAINTEXT": HostAndPort("somewhere", 9092)}
IDS = [bytes([number]) * 16 for number in range(3)]


class Subject(Protocol):
    def do(self, name: str, *arguments: Any) -> object: ...

    def shown(self) -> object: ...


class OnPostgres:
    def __init__(self, server: PostgresServer) -> None:
        schema = new_schema()
        self._catalog: SharedPostgresCatalog = open_shared(server, schema, lease_seconds=LEASE)
        self._leases = PostgresMembership(server.url(), schema, "the server", LEASE)

    def do(self, name: str, *arguments: Any) -> object:
        owner = self._leases if name in ("renew", "settle", "drain") else self._catalog
        answer = getattr(owner, name)(*arguments)
        return answer[0] if name == "renew" and answer is not None else answer

    def shown(self) -> object:
        leases = [each._replace(lease_seconds=0, has_session=True) for each in self._leases.standings()]
        return self._catalog.brokers(), self._catalog.partitions(), leases

    def close(self) -> None:
        self._leases.close()
        self._catalog.close()


class InTheWorld:
    def __init__(self) -> None:
        self._now = 0.0
        self.database = Database(lambda: self._now)
        self.process = Process("broker")
        self.session = Session(self.process)

    def pass_time(self, seconds: float) -> None:
        self._now += seconds

    def do(self, name: str, *arguments: Any) -> object:
        database = self.database
        if name in ("create_topic", "unregister_broker", "direct_partitions"):
            return getattr(database.catalog, name)(*arguments)
        calls: Mapping[str, Any] = {
            "register_broker": partial(database.register, lease_seconds=LEASE),
            "announce_broker": database.announce,
            "hand_over": database.hand_over,
            "renew": partial(database.renew, lease_seconds=LEASE, session=self.session),
            "settle": partial(database.settle, lease_seconds=LEASE, ends_late=True),
            "drain": lambda node_id: database.drain(node_id, even_the_last=True),
        }
        return calls[name](*arguments)

    def shown(self) -> object:
        leases = [each._replace(lease_seconds=0, has_session=True) for each in self.database.standings()]
        return self.database.catalog.brokers(), self.database.catalog.partitions(), leases


def some_moves(chance: random.Random) -> Collection[Move]:
    leaders = [chance.choice([1, 2, 3]) for _ in range(2)]
    return [Move(chance.choice(IDS), index, Placement(leader, (leader, 1))) for index, leader in enumerate(leaders)]


def some_directions(chance: random.Random) -> Collection[Direction]:
    wanted = [chance.choice([(None, None), ((3, 1), (1, 2)), ((2, 1, 3), None), ((1, 2), ())]) for _ in range(2)]
    return [
        Direction(chance.choice(IDS), index, replicas, replaced, chance.choice([NOBODY, 1, 2]))
        for index, (replicas, replaced) in enumerate(wanted)
    ]


def steps(seed: int) -> list[tuple[Any, ...]]:
    chance = random.Random(seed)
    made: list[tuple[Any, ...]] = []
    for number, topic_id in enumerate(IDS):
        made.append(("create_topic", f"t{number}", topic_id, 2, {}, [Placement(1, (1, 2)), Placement(2, (2, 3))]))
    for _ in range(60):
        node_id, epoch = chance.choice([1, 2, 3]), chance.randint(1, 15)
        made.append(
            chance.choice(
                [
                    ("register_broker", node_id, f"folder of {node_id}", None, {}),
                    ("register_broker", node_id, f"folder of {node_id}", None, AT),
                    ("register_broker", node_id, "another folder", None, AT),
                    ("announce_broker", node_id, epoch, AT),
                    ("unregister_broker", node_id, epoch),
                    ("direct_partitions", some_directions(chance)),
                    ("hand_over", node_id, epoch, some_moves(chance)),
                    ("renew", node_id, epoch),
                    ("settle", [(node_id, epoch)], rescue),
                    ("drain", node_id),
                ]
            )
        )
    return made


def outcome(subject: Subject, step: tuple[Any, ...]) -> object:
    try:
        return subject.do(*step), subject.shown()
    except NodeIdInUse:
        return "in use", subject.shown()
    except CatalogError:
        return "refused", subject.shown()


@pytest.mark.parametrize("seed", range(4))
def test_it_answers_as_postgresql_does(seed: int, postgres: PostgresServer) -> None:
    real, simulated = OnPostgres(postgres), InTheWorld()
    for number, step in enumerate(steps(seed)):
        assert outcome(simulated, step) == outcome(real, step), f"step {number}: {step}"
    real.close()


def test_a_change_that_is_repeated_under_its_id_is_made_once() -> None:
    database = InTheWorld().database
    made: list[int] = []

    def make() -> int:
        made.append(1)
        return len(made)

    assert database.change("one", make) == 1
    assert database.change("one", make) == 1
    assert made == [1]


def test_the_commit_log_follows_who_leads() -> None:
    world = InTheWorld()
    world.do("create_topic", "t", IDS[0], 2, {}, [Placement(1, (1,)), Placement(2, (2,))])
    world.database.change("noticed", lambda: None)
    keys = world.database.commits.partitions()
    assert [state.leader for state in world.database.commits.states(keys).values()] == [1, 2]
    world.database.change("deleted", lambda: world.database.catalog.delete_topic(IDS[0]))
    assert world.database.commits.partitions() == []


def test_a_lease_that_is_over_is_ended_and_not_just_after_a_start_of_the_database() -> None:
    world = InTheWorld()
    world.do("register_broker", 1, "folder", None, AT)
    world.pass_time(LEASE + 1)
    world.database.restarted()
    assert world.do("settle", [], rescue) == []
    world.pass_time(LEASE + 1)
    assert world.do("settle", [], rescue) == [1]


def test_a_killed_broker_has_no_session_and_one_whose_machine_is_gone_seems_to() -> None:
    for is_silent in (False, True):
        world = InTheWorld()
        epoch = world.do("register_broker", 1, "folder", None, AT)
        world.do("renew", 1, epoch)
        world.process.is_dead, world.process.is_silent = True, is_silent
        assert world.database.standings()[0].has_session is is_silent
        assert world.do("settle", [(1, epoch)], rescue) == ([] if is_silent else [1])
