"""What brokers log in with comes from the secret of their cluster, and from nothing else."""

from __future__ import annotations

from penstock.broker.cluster_login import BROKERS, credential, password
from penstock.security.scram import ScramMechanism, matches

SECRET, OTHER = bytes(32), bytes(31) + b"1"


def test_the_password_of_a_cluster_fits_its_credential_and_no_other() -> None:
    for mechanism in ScramMechanism:
        made = credential(SECRET, mechanism)
        assert matches(mechanism, made, password(SECRET))
        assert not matches(mechanism, made, password(OTHER))


def test_a_broker_is_no_user() -> None:
    assert BROKERS.kind != "User"
