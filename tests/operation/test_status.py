"""`penstock cluster status` and `drain` on running brokers."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.client.sync import Admin, Producer
from tests.broker.process import free_port
from tests.cluster.members import Members
from tests.operation.conftest import done, refused, run
from tests.postgres import PostgresServer


def test_status_tells_of_brokers_records_and_what_waits_and_drain_moves_leaders(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    members = Members(tmp_path, postgres, 2)
    for node_id, process in members.brokers.items():
        process.configs["penstock.metrics.listen"] = f"127.0.0.1:{free_port()}"
        process.configs["broker.rack"] = f"rack-{node_id}"
    metrics = str(members.brokers[1].configs["penstock.metrics.listen"])
    arguments = ["cluster", "status", "--cluster", members.cluster]
    with members:
        with Admin(bootstrap_servers=members.bootstrap) as admin:
            admin.create_topic("orders", 4)
        with Producer(bootstrap_servers=members.bootstrap) as producer:
            producer.send("orders", b"small", partition=0).result()
            producer.send("orders", bytes(700_000), partition=1).result()
        found = done(*arguments, "--metrics", metrics)
        assert [(each["node_id"], each["state"], each["rack"]) for each in found["brokers"]] == [
            (1, "running", "rack-1"),
            (2, "running", "rack-2"),
        ]
        assert sum(each["leads"] for each in found["brokers"]) == found["partitions"] == 4
        assert (found["leaderless"], found["extents"], found["objects"]) == (0, 2, 1)
        assert found["inline_bytes"] < found["extent_bytes"] < 710_000
        assert found["orphans"] == {"objects": 0, "bytes": 0}
        assert found["figures"][0]["waiting_bytes"] == 0
        shown = run(*arguments)
        assert re.search(r"^1 +running +\S+ s +2 ", shown.stdout, re.MULTILINE), shown.stdout
        assert "--metrics" in shown.stderr
        for nobody in ("127.0.0.1:1", "0.0.0.0:1"):  # the latter is no address of this machine alone: it needs TLS
            unread = run(*arguments, "--metrics", nobody)
            assert re.search(rf"^{re.escape(nobody)} +not read", unread.stdout, re.MULTILINE), unread.stdout
            assert f"{nobody} does not answer" in unread.stderr
        drained = run("cluster", "drain", "1", "--cluster", members.cluster)
        assert drained.returncode == 0, drained.stderr
        assert members.leaders("orders") == [2, 2, 2, 2]
        after = done(*arguments)
        assert [each["state"] for each in after["brokers"]] == ["stopped", "running"]
        assert after["leaderless"] == 0
        drain = ["cluster", "drain", "--cluster", members.cluster]
        assert "No broker with node id 1 is running" in refused(*drain, "1")
        alone = refused(*drain, "2")
        assert "Broker 2 cannot hand over" in alone
        assert "--force" in alone
        assert members.leaders("orders") == [2, 2, 2, 2], "it serves on"
        forced = run(*drain, "2", "--force")
        assert forced.returncode == 0, forced.stderr
        assert "4 partitions have no leader" in forced.stderr
        assert done(*arguments)["leaderless"] == 4


def test_a_schema_without_a_cluster_is_named_as_such(postgres: PostgresServer) -> None:
    for command in (["status"], ["drain", "1"], ["check"]):
        assert "There is no cluster in the schema 'nothing'" in refused(
            "cluster", *command, "--cluster", postgres.url("nothing")
        )
