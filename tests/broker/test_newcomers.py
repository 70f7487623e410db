"""Unauthenticated connections are bounded, and one address cannot lock out the others."""

from __future__ import annotations

from penstock.broker.config import BrokerConfig
from penstock.broker.newcomers import Newcomers


class Client:
    def __init__(self, host: str = "10.0.0.1") -> None:
        self.peer_host = host
        self.closed = False

    def close(self) -> None:
        self.closed = True


class Rig:
    def __init__(self, **limits: int) -> None:
        self.now = 100.0
        names = {
            "most": "penstock.unauthenticated.connections.max",
            "per_ip": "penstock.unauthenticated.connections.max.per.ip",
            "most_bytes": "penstock.unauthenticated.bytes.max",
            "timeout_ms": "penstock.authentication.timeout.ms",
        }
        config = BrokerConfig({names[name]: str(value) for name, value in limits.items()})
        self.newcomers = Newcomers(config, lambda: self.now)

    def add(self, *hosts: str) -> list[Client]:
        clients = [Client(host) for host in hosts]
        for client in clients:
            self.newcomers.add(client)
        return clients


def test_one_too_many_from_an_address_closes_its_oldest() -> None:
    rig = Rig(per_ip=2)
    first, second, other, third = rig.add("a", "a", "b", "a")
    assert first.closed
    assert not any(each.closed for each in (second, other, third))
    assert len(rig.newcomers) == 3


def test_one_too_many_in_all_closes_the_oldest_of_the_address_with_most() -> None:
    rig = Rig(most=4)
    lone, *crowd = rig.add("lone", "crowd", "crowd", "crowd")
    late = rig.add("late")[0]
    assert crowd[0].closed
    assert not any(each.closed for each in (lone, late, crowd[1], crowd[2]))


def test_ten_thousand_of_one_address_do_not_push_out_another() -> None:
    rig = Rig()
    honest = rig.add("honest")[0]
    rig.add(*["attacker"] * 10_000)
    assert not honest.closed
    assert len(rig.newcomers) == 501


def test_who_is_not_authenticated_makes_room_for_others() -> None:
    rig = Rig()
    assert not rig.newcomers.make_room()
    lone, *crowd = rig.add("lone", "crowd", "crowd")
    assert rig.newcomers.make_room()
    assert [each.closed for each in (lone, *crowd)] == [False, True, False]


def test_who_is_settled_does_not_count_and_is_not_closed() -> None:
    rig = Rig(per_ip=1)
    first = rig.add("a")[0]
    rig.newcomers.settled(first)
    rig.newcomers.settled(first)
    rig.add("a")
    assert not first.closed
    assert len(rig.newcomers) == 1


def test_who_takes_too_long_is_closed() -> None:
    rig = Rig(timeout_ms=5000)
    early = rig.add("a")[0]
    rig.now += 3
    late = rig.add("a")[0]
    rig.now += 2
    rig.newcomers.sweep()
    assert early.closed
    assert not late.closed
    assert rig.newcomers.evicted_total == 1


def test_frames_that_are_arriving_have_a_bound_together() -> None:
    rig = Rig(most_bytes=1000)
    first, second, third = rig.add("a", "b", "c")
    rig.newcomers.expects(first, 500)
    rig.newcomers.expects(second, 300)
    rig.newcomers.expects(second, 400)
    assert not any(each.closed for each in (first, second))
    rig.newcomers.expects(third, 200)
    assert first.closed
    assert not any(each.closed for each in (second, third))


def test_the_address_whose_frames_need_most_loses_its_oldest() -> None:
    rig = Rig(most_bytes=1000)
    honest, *crowd = rig.add("honest", "crowd", "crowd", "crowd")
    rig.newcomers.expects(honest, 300)
    for client in crowd:
        rig.newcomers.expects(client, 300)
    assert [each.closed for each in (honest, *crowd)] == [False, True, False, False]


def test_a_frame_larger_than_the_bound_closes_its_own_connection() -> None:
    rig = Rig(most_bytes=1000)
    client = rig.add("a")[0]
    rig.newcomers.expects(client, 1001)
    assert client.closed
    assert len(rig.newcomers) == 0


def test_they_are_counted() -> None:
    rig = Rig(per_ip=1)
    rig.add("a", "a")
    values = {metric.name: metric.samples[0][1] for metric in rig.newcomers.metrics()}
    assert values == {
        "penstock_unauthenticated_connections": 1,
        "penstock_unauthenticated_connections_evicted_total": 1,
    }
