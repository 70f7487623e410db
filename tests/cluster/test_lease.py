"""A lease counts from before its renewal was sent, ends by itself, and is lost for good when others end it."""

from __future__ import annotations

import pytest

from penstock.cluster.lease import Lease, LeaseState

SECONDS = 8.0


@pytest.fixture
def lease() -> Lease:
    return Lease(SECONDS)


def test_it_is_held_from_before_the_renewal_was_sent(lease: Lease) -> None:
    assert lease.state(0.0) is LeaseState.WAITING
    lease.renewed(sent_at=1.0)
    assert lease.state(8.9) is LeaseState.HELD
    assert lease.state(9.0) is LeaseState.OVER


def test_an_answer_that_took_longer_than_the_lease_is_worth_nothing(lease: Lease) -> None:
    lease.renewed(sent_at=1.0)
    assert lease.state(20.0) is LeaseState.OVER


def test_renewals_that_arrive_in_another_order_do_not_shorten_it(lease: Lease) -> None:
    lease.renewed(sent_at=3.0)
    lease.renewed(sent_at=1.0)
    assert lease.state(10.9) is LeaseState.HELD


def test_it_is_held_again_if_nobody_ended_it(lease: Lease) -> None:
    lease.renewed(0.0)
    assert lease.state(30.0) is LeaseState.OVER
    lease.renewed(30.0)
    assert lease.state(31.0) is LeaseState.HELD


def test_once_others_have_ended_it_only_a_registration_helps(lease: Lease) -> None:
    lease.renewed(0.0)
    lease.refused()
    lease.renewed(1.0)
    assert lease.state(1.0) is LeaseState.FENCED
    lease.registered(2.0)
    assert lease.state(2.0) is LeaseState.HELD


def test_the_leases_of_others_are_left_alone_for_one_lease_after_a_gap(lease: Lease) -> None:
    lease.renewed(0.0)
    for now in range(1, 8):
        lease.renewed(float(now))
        assert not lease.may_end_others(float(now))
    lease.renewed(8.0)
    assert lease.may_end_others(8.0)
    lease.renewed(30.0)
    assert not lease.may_end_others(30.5)
    for now in range(31, 38):
        lease.renewed(float(now))
    assert lease.may_end_others(38.0)


def test_a_broker_without_its_lease_ends_no_others(lease: Lease) -> None:
    lease.renewed(0.0)
    lease.renewed(7.0)
    assert lease.may_end_others(14.0)
    assert not lease.may_end_others(15.0)
    lease.refused()
    assert not lease.may_end_others(14.0)


def test_several_renewals_fit_into_a_lease(lease: Lease) -> None:
    assert lease.pause_seconds < SECONDS / 4


def test_it_is_renewed_as_often_as_configured_and_six_times_at_least() -> None:
    assert Lease(9.0, renewal_seconds=2.0).pause_seconds == 1.5
    assert Lease(60.0, renewal_seconds=2.0).pause_seconds == 2.0
