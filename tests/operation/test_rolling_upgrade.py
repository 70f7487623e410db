"""Brokers of two versions are one cluster while it is upgraded: the schema is expanded first, and contracted later."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from penstock.client.sync import Admin
from tests.broker.process import BrokerProcess
from tests.cluster.members import Members
from tests.cluster.test_takeover import PARTITIONS, TOPIC, Load, every_record
from tests.operation import newer_version
from tests.postgres import PostgresServer

THIS, EXPANDED, CONTRACTED = 0, 1, 2


class VersionedBroker(BrokerProcess):
    """A broker of this version or of one to come."""

    version = THIS

    def command(self) -> list[str]:
        program, *arguments = super().command()
        if self.version == THIS:
            return [program, *arguments]
        return [sys.executable, newer_version.__file__, str(self.version), *arguments]


class VersionedMembers(Members):
    broker_class = VersionedBroker


def refused(broker: BrokerProcess) -> str:
    done = subprocess.run(broker.command(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stdout
    return " ".join(done.stderr.split())


def test_brokers_are_upgraded_one_after_the_other_under_load(tmp_path: Path, postgres: PostgresServer) -> None:
    with VersionedMembers(tmp_path, postgres, 2) as members:
        one, two = members.brokers.values()
        third = members.process(3)
        assert isinstance(one, VersionedBroker)
        assert isinstance(two, VersionedBroker)
        assert isinstance(third, VersionedBroker)

        def upgrade(broker: VersionedBroker, version: int) -> None:
            assert broker.stop() == 0
            broker.version = version
            broker.start()
            load.until_more(20)

        with Admin(bootstrap_servers=members.bootstrap) as admin:
            admin.create_topic(TOPIC, PARTITIONS, 2)
        load = Load(members.bootstrap)
        try:
            load.until_more(20)
            upgrade(two, EXPANDED)
            for number, broker in enumerate((one, two)):  # both versions change what both read
                with Admin(bootstrap_servers=broker.address) as admin:
                    admin.create_topic(f"new-{number}", 2, 2)
            upgrade(one, THIS)  # is started on the newer schema
            third.version = CONTRACTED
            assert "running brokers (node 1), which are of an earlier Penstock" in refused(third)
            upgrade(two, THIS)  # the upgrade is taken back
            upgrade(two, EXPANDED)
            upgrade(one, EXPANDED)
            third.version = CONTRACTED
            upgrade(two, CONTRACTED)
            upgrade(one, CONTRACTED)
            third.version = THIS
            assert "was changed by a newer Penstock" in refused(third)
        finally:
            acknowledged = load.stop()
        found = every_record(members.bootstrap, TOPIC, PARTITIONS)
        assert sorted(int(value) for values in found for value in values) == sorted(acknowledged)
        assert all(values == sorted(values, key=int) for values in found), "out of order"
        with Admin(bootstrap_servers=members.bootstrap) as admin:
            assert {each.name for each in admin.list_topics()} >= {TOPIC, "new-0", "new-1"}
